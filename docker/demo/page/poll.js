/*
 * poll.js: polls while the page is visible; returns a function that ends it.
 * look() gets get(), which returns the JSON of a URL. A failed request is
 * repeated in the next round.
 */
async function get(url) {
  const response = await fetch(url, { cache: 'no-store' });
  if (!response.ok) {
    throw Object.assign(new Error(`${response.status}`),
      { status: response.status });
  }
  return response.json();
}

export function poll(period, look, fail = () => {}) {
  let timer;
  let ended = false;
  const round = async () => {
    try {
      if (!document.hidden) {
        await look(get);
      }
    } catch (error) {
      fail(error);
    }
    if (!ended) {
      timer = setTimeout(round, period);
    }
  };
  round();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
