/*
 * settings.js: the settings of this run, kept in the page's address so that a
 * second window and a reload get the same. known: the address names the chat.
 */
const names = ['plain', 'late', 'two', 'cut', 'replay'];

/* An id that the status endpoint does not shorten. */
export const newChat = () => `chat-${[...crypto.getRandomValues(
  new Uint8Array(7))].map((n) => 'abcdefghijkmnpqrstuvwxyz23456789'[n % 32])
  .join('')}`;

export function settingsOf(search) {
  const params = new URLSearchParams(search);
  return { ...Object.fromEntries(names.map((name) =>
    [name, params.has(name)])), chat: params.get('chat') ?? newChat(),
  known: params.has('chat'), second: params.has('second') };
}

export function searchOf(settings) {
  const params = new URLSearchParams({ chat: settings.chat });
  for (const name of [...names, 'second']) {
    if (settings[name]) {
      params.set(name, '');
    }
  }
  return `?${params}`.replace(/=(?=&|$)/g, '');
}

/* The path to the app: through the module, or through plain NGINX. */
export const apiOf = ({ plain }) => (plain ? '/plain/app/chat' : '/app/chat');
