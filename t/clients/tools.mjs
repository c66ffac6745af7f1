/*
 * tools.mjs: the tools that the clients run, in Node or in a browser's page. A
 * tool's result depends only on its name and its input, so that each run gives
 * the same.
 */
export const tools = ['weather', 'population', 'elevation', 'river'];

export const work = (name, input) =>
  ({ tool: name, of: input.city, is: name.length * 1.5 });

export const parameters = { type: 'object', properties: {
  city: { type: 'string' }, degrees: { type: 'number' } } };
