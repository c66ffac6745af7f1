/*
 * tools.mjs: the tools that the clients run, in Node or in a browser's page.
 * What a tool gives is plain from its name and its input, so that whoever
 * runs it, and however often, gets the same.
 */
export const tools = ['weather', 'population', 'elevation', 'river'];

export const work = (name, input) =>
  ({ tool: name, of: input.city, is: name.length * 1.5 });

export const parameters = { type: 'object', properties: {
  city: { type: 'string' }, degrees: { type: 'number' } } };
