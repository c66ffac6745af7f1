/*
 * panel.jsx: shows which requests the app got, and what the module did, from
 * its status endpoint.
 */
import { useEffect, useState } from 'react';
import { poll } from './poll.js';
import { apiOf } from './settings.js';

const meaning = {
  held: 'the request waits in NGINX for the missing results',
  bounced: 'the page gets the known results and sends again',
  merged: 'NGINX inserted the missing results and sent it to the app',
  released: 'all results are there: NGINX sent it to the app',
  dropped: 'NGINX dropped repeated calls from the stream',
  attached: 'the request follows the one answer',
  interrupted: 'the answer broke off, the page got an error',
  empty: 'another request has the answer, or the user sent a new message',
  conflict: 'a sibling: another request has the answer',
  superseded: 'the user had sent a new message',
  unmanaged: 'cannot be identified: passed unchanged',
  bypass: 'store unavailable: passed unchanged',
};

/* A page can add a result only between two requests. */
const polls = 'a useChat page sends its held request again and again';

/* The holds of one wait are one row; times counts them. */
function folded(events) {
  const waits = ({ what }) => what === 'held' || what === 'bounced';
  return events.reduce((rows, event) => {
    const last = rows.at(-1);
    if (!last || last.batch !== event.batch || !waits(last)
      || !waits(event)) {
      return [...rows, { ...event, times: 1 }];
    }
    return [...rows.slice(0, -1), { ...last,
      detail: event.what === 'held' ? event.detail : last.detail,
      times: last.times + (event.what === 'held') }];
  }, []);
}

const clock = (time) => new Date(time).toLocaleTimeString([],
  { hour12: false });

/* Requests with results, and the app's answers to them. */
function outcomeOf(requests) {
  const brought = requests.filter(({ of }) => of);
  const refused = brought.filter((one) => one.refused).length;
  const whole = brought.length - refused;
  if (!brought.length) {
    return ['', 'No results have reached the app yet.'];
  }
  if (!whole) {
    return ['bad', `${refused} incomplete request${refused > 1
      ? 's' : ''} refused, no answer.`];
  }
  if (brought.some(({ cut }) => cut)) {
    return ['half', 'All results, but the app crashed during its answer.'];
  }
  return refused ? ['half', `${refused} refused, ${whole} answered.`]
    : whole > 1 ? ['half', `${whole} complete requests, none refused.`]
      : ['good', 'One request, with all results.'];
}

function fateOf({ of, refused, cut, replayed }) {
  return refused ?? (cut ? 'partly answered' : replayed
    ? 'repeated the old calls, then answered'
    : of ? 'answered' : 'asks for three tools');
}

function App({ requests }) {
  const [kind, text] = outcomeOf(requests);
  return <>
    <h2>What the app got</h2>
    <p className={`outcome ${kind}`}>{text}</p>
    <ol>{requests.map((one, i) =>
      <li key={i} className={one.refused ? 'bad' : 'good'}>
        <time>{clock(one.time)}</time>
        <b>{one.of ? `${one.results} of ${one.of} results`
          : 'a question'}</b>
        <span>{fateOf(one)}</span>
      </li>)}</ol>
  </>;
}

function Module({ plain, state, events }) {
  let note = null;
  if (plain) {
    note = 'Nothing: these requests bypass it.';
  } else if (state === 404) {
    note = 'This NGINX has no status endpoint, so there is nothing to show.';
  } else if (state) {
    note = `The status endpoint does not answer (${state}).`;
  } else if (!events.length) {
    note = 'Nothing yet.';
  }
  return <>
    <h2>What ngx_chat did</h2>
    {note && <p className="note">{note}</p>}
    <ol>{folded(events).toReversed().map(({ n, time, what, detail, times }) =>
      <li key={n} className={`event ${what}`}>
        <time>{clock(time)}</time><b>{what}{times > 1 && ` × ${times}`}</b>
        <i>{detail}</i>
        <span>{meaning[what]}{times > 1 && `; ${polls}`}</span>
      </li>)}</ol>
  </>;
}

/* Appends new events; the endpoint returns only the last ones. */
function gathered(old, events, chat) {
  const seen = new Set(old.map(({ n }) => n));
  const fresh = events.filter(({ n, conversation }) =>
    !seen.has(n) && conversation === chat);
  return fresh.length ? [...old, ...fresh].slice(-200) : old;
}

export function Panel({ settings, again }) {
  const { chat, plain } = settings;
  const [requests, setRequests] = useState([]);
  const [events, setEvents] = useState([]);
  const [state, setState] = useState(null);
  useEffect(() => poll(500, async (get) => {
    setRequests((await get(`${apiOf(settings)}?id=${chat}`)).requests);
  }), []);
  useEffect(() => (plain ? undefined : poll(500, async (get) => {
    const status = await get('/chat-status');
    setState(null);
    setEvents((old) => gathered(old, status.events ?? [], chat));
  }, (error) => setState(error.status ?? error.message))), []);
  return <aside>
    <App requests={requests} />
    <Module plain={plain} state={state} events={events} />
    <footer>
      <button onClick={again}>New conversation</button>
      <a href="/status.html">Status page</a>
      <code>{chat}</code>
    </footer>
  </aside>;
}
