/*
 * main.mjs: the demo's app by itself, in a container of compose.yaml.
 *
 * node main.mjs FOLDER builds the pages into the folder and listens on port
 * 8082 of all addresses. Each turn is a line of JSON on stdout.
 */
import { app } from './app.mjs';
import { buildPage } from './build.mjs';

/* A first process of a container has no default action for signals. */
process.on('SIGTERM', () => process.exit());

await buildPage(process.argv[2]);
const { name } = await app({ port: 8082, host: '0.0.0.0',
  log: (turn) => console.log(JSON.stringify(turn)) });
console.log(`The model is ${name}.`);
