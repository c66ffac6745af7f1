/*
 * google_old.mjs: the package @google/generative-ai, which Google no longer
 * develops and many apps still use: generateContentStream() and
 * generateContent(). It ignores error events of a stream. Each is a talker
 * (talk.mjs), that of google.mjs over this package.
 */
import { Contents, Stream } from './google.mjs';

/* The methods of @google/genai that the talkers call. */
function models(client, { baseUrl, customHeaders }) {
  const of = ({ model, config: { tools } }) => client.getGenerativeModel(
    { model, tools }, { baseUrl, customHeaders });
  return {
    async generateContent({ contents, config, ...rest }) {
      const { response } = await of({ config, ...rest }).generateContent(
        { contents }, { signal: config.abortSignal });
      return response;
    },
    async generateContentStream({ contents, config, ...rest }) {
      const { stream, response } = await of({ config, ...rest })
        .generateContentStream({ contents }, { signal: config.abortSignal });
      /* The same failure, reported twice. */
      response.catch(() => {});
      return stream;
    },
  };
}

const ways = {
  'generateContentStream()': { Talker: Stream },
  'generateContent()': { Talker: Contents, stream: false },
};

export const googleOld = (version, GoogleGenerativeAI) => Object.entries(ways)
  .map(([way, { Talker, ...rest }]) => ({ name: `${version}, ${way}`,
    key: 'gemini', retries: false, deaf: true, ...rest,
    make: (base, { key, headers }) => new Talker({ models: models(
      new GoogleGenerativeAI(key),
      { baseUrl: base, customHeaders: headers }) }) }));
