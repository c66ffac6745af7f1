/*
 * settings.js: how this run of the demo goes, as the page's address says it,
 * so that a second window and a reload get the same. known: the address
 * brought the chat with it.
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

/* Where the app is: behind the module, or behind plain NGINX. */
export const apiOf = ({ plain }) => (plain ? '/plain/app/chat' : '/app/chat');
