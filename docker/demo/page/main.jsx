/*
 * main.jsx: the demo's page: switches, one chat window or two, and a panel
 * that shows what the module did. With ?second it is the second window alone.
 */
import { useState } from 'react';
import { createRoot } from 'react-dom/client';
import { Chat } from './chat.jsx';
import { Panel } from './panel.jsx';
import { newChat, searchOf, settingsOf } from './settings.js';

const switches = [
  { name: 'early', label: 'Send early',
    hint: 'The page sends each result at once, as many apps do.' },
  { name: 'two', label: 'Two windows',
    hint: 'The same chat is open twice. Each window sends only its own '
      + 'results.' },
  { name: 'replay', label: 'Replaying provider',
    hint: 'The app repeats the old tool calls before its answer.' },
  { name: 'cut', label: 'Cut the stream',
    hint: 'The app crashes in the middle of its answer.' }];

function Switch({ label, hint, on, disabled, flip, name }) {
  return <label className="switch" title={hint}>
    <input type="checkbox" name={name} checked={on} disabled={disabled}
      onChange={flip} />
    <span className="knob" aria-hidden="true" />{label}
  </label>;
}

function Path({ plain, choose }) {
  return <div className="path" role="radiogroup" aria-label="The way">
    {[['with ngx_chat', false], ['plain NGINX', true]].map(([label, is]) =>
      <label key={label} className={plain === is ? 'chosen' : ''}>
        <input type="radio" name="path" checked={plain === is}
          onChange={() => choose(is)} />{label}
      </label>)}
  </div>;
}

/* What to expect, one sentence for each switch. */
function expectation({ plain, two, late, cut, replay }) {
  const said = [];
  if (two) {
    said.push(`Ask in window 1, then answer the question in either window${
      plain ? '.' : ': both show the answer.'}`);
  }
  if (two || !late) {
    const sends = two ? 'Each window sends what it has'
      : 'The page sends what it has';
    said.push(plain
      ? `${sends}; the app refuses a chat with missing results.`
      : `${sends}; NGINX holds it until all three results are there, and one `
        + 'complete request goes upstream.');
  } else {
    said.push('The page itself waits for all three results.');
  }
  if (replay) {
    said.push(plain ? 'The app repeats the old calls: the page forgets '
      + 'their results and runs the tools twice.'
      : 'The app repeats the old calls: NGINX drops them.');
  }
  if (cut) {
    said.push(plain ? 'A truncated answer looks complete.'
      : 'The answer breaks off, and the page gets an error.');
  }
  if (!two) {
    said.push(plain ? 'Reload in the middle of an answer: it is lost.'
      : 'Reload in the middle of an answer: it continues.');
  }
  return said.join(' ');
}

function Windows({ settings }) {
  if (!settings.two) {
    return <Chat settings={settings} />;
  }
  const second = searchOf({ ...settings, second: true });
  return <>
    <Chat settings={settings} title="Window 1" />
    <div className="frame">
      <iframe title="Window 2" src={`/${second}`} />
      <a href={`/${second}`} target="_blank" rel="noreferrer">
        open it as a window of its own</a>
    </div>
  </>;
}

function Demo() {
  const [settings, setSettings] = useState(first);
  /* Other settings begin another conversation. */
  const change = (some) => setSettings((old) => {
    const next = { ...old, ...some, chat: newChat(), known: false };
    window.history.replaceState(null, '', searchOf(next));
    return next;
  });
  const on = { ...settings, early: settings.two || !settings.late };
  const flip = { early: () => change({ late: !settings.late }) };
  return <>
    <header>
      <h1>Three tools at once <small>a demo of ngx_chat</small></h1>
      <p>The model asks for a fast tool, a slow one, and your opinion. An app
        may go on only when it has all three results.</p>
      <div className="bar">
        <Path plain={settings.plain} choose={(plain) => change({ plain })} />
        {switches.map((one) => <Switch key={one.name} {...one}
          on={on[one.name]} disabled={one.name === 'early' && settings.two}
          flip={flip[one.name]
            ?? (() => change({ [one.name]: !settings[one.name] }))} />)}
      </div>
      <p className="expectation">{expectation(settings)}</p>
    </header>
    <main key={settings.chat} className={settings.two ? 'two' : ''}>
      <Windows settings={settings} />
      <Panel settings={settings} again={() => change({})} />
    </main>
  </>;
}

const first = settingsOf(window.location.search);
/* So that the page finds its chat after a reload. */
window.history.replaceState(null, '', searchOf(first));
createRoot(document.getElementById('page')).render(first.second
  ? <main className="alone"><Chat settings={first} title="Window 2" />
  </main> : <Demo />);
