/*
 * tools.mjs: the three tools of the demo, as the app declares them and as the
 * page runs them: a fast one, a slow one, and one that asks the user. A tool's
 * result depends only on its input.
 */
const city = { type: 'string', description: 'The city to go to' };

const object = (properties) => ({ type: 'object', properties,
  required: Object.keys(properties), additionalProperties: false });

/* A number below most that depends only on the words. */
function pick(words, most) {
  let sum = 7;
  for (const letter of words) {
    sum = (sum * 31 + letter.codePointAt(0)) % 99991;
  }
  return sum % most;
}

const skies = ['sunny', 'cloudy', 'windy', 'a little rain'];

/* takes: how long the page works at it, in ms; null: the user decides. */
export const tools = {
  weather: { title: 'Weather', takes: 300,
    description: 'The weather of the weekend in a city',
    parameters: object({ city }),
    work: (input) => ({ degrees: 12 + pick(`${input.city}`, 18),
      sky: skies[pick(`${input.city} sky`, skies.length)] }) },
  flights: { title: 'Flights', takes: 4000,
    description: 'The best flight to a city',
    parameters: object({ city }),
    work: (input) => ({ flight: `NX ${100 + pick(`${input.city} nx`, 900)}`,
      leaves: `0${6 + pick(`${input.city} at`, 4)}:40`,
      euros: 59 + pick(`${input.city} eur`, 90) }) },
  ask: { title: 'A question', takes: null,
    description: 'Asks the user to choose between two to four options. '
      + 'Always call it together with the other tools.',
    parameters: object({ question: { type: 'string' },
      options: { type: 'array', items: { type: 'string' } } }),
    work: (input, answer) => ({ answer }) },
};
