/*
 * deep_chat.js: a page with the element deep-chat, which talks to a Chat
 * Completions endpoint by itself.
 */
import 'deep-chat';

const chat = document.createElement('deep-chat');
chat.directConnection = { openAI: { key: 'from the page',
  completions: true } };
chat.connect = { url: window.play.api, stream: true };
document.getElementById('page').append(chat);

let busy = false;
const errors = [];
chat.onMessage = ({ message, isHistory }) => {
  busy = isHistory || message.role === 'user' ? busy : false;
};
chat.onError = (error) => {
  errors.push(String(error));
  busy = false;
};
window.say = (text) => {
  busy = true;
  chat.submitUserMessage({ text });
};
window.state = () => ({ calls: [], errors, messages: chat.getMessages(),
  text: chat.shadowRoot.querySelector('#messages')?.innerText ?? '',
  idle: !busy });
