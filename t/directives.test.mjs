/*
 * directives.test.mjs: docs/directives.md agrees with the tables of the
 * source: names, contexts, numbers of arguments, parameters and defaults.
 * Each directive has an example, and nginx accepts all of them.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { nginxTest, root, unbuilt } from './lib/harness.mjs';

const read = (path) => readFileSync(`${root}/${path}`, 'utf8');
const all = (text, pattern) => [...text.matchAll(pattern)].map((m) => m[1]);
const sorted = (list) => [...new Set(list)].sort();

const directives = read('docs/directives.md');
const source = read('ngx_chat_module/ngx_chat_conf.c');

/* The command table: {name, where, args, set, field, post} of each line. */
const commands = [...source.split('ngx_chat_commands[] = {')[1]
  .split('ngx_null_command')[0].replace(/\s+/g, ' ').matchAll(new RegExp(
    'NGX_CHAT_LOC\\("(?<name>\\w+)", (?<args>\\w+), (?<set>\\w+), '
    + '(?<field>\\w+), (?:\\(void \\*\\) )?(?<post>\\w+)\\)|'
    + '\\{ ngx_string\\("(?<name2>\\w+)"\\), (?<where>\\w+) \\| '
    + '(?<args2>\\w+), (?<set2>\\w+), \\w+, 0, '
    + '(?:\\(void \\*\\) )?(?<post2>\\w+)', 'g'))]
  .map(({ groups: g }) => ({ name: g.name ?? g.name2, post: g.post ?? g.post2,
    where: g.where ?? 'NGX_CHAT_ANYWHERE', args: g.args ?? g.args2,
    set: g.set ?? g.set2, field: g.field }));

const headers = source + read('ngx_chat_module/base/ngx_chat_conf.h')
  + read('ngx_chat_module/store/redis/ngx_chat_redis_conf.c');

/* The value of a constant expression of the source. */
function value(expression) {
  const text = expression.replace(/\(ngx_\w+_t\)/g, '')
    .replace(/\bNGX_CHAT_\w+/g, (name) => `(${value(new RegExp(
      `#define ${name} (.+?)(?:\\s*/\\*.*)?$`, 'm').exec(headers)[1])})`);
  assert.match(text, /^[-\d\s*()]+$/, expression);
  return Function(`return ${text}`)();
}

/* A number as the configuration has it: 3000 ms are 3s. */
const step = (units) => (n) => {
  const [unit, size] = units.find(([, one]) => n % one === 0);
  return `${n / size}${unit}`;
};
const time = step([['h', 3600000], ['m', 60000], ['s', 1000], ['ms', 1]]);
const written = { msec: time, sec: (n) => time(n * 1000), num: String,
  size: step([['m', 1048576], ['k', 1024], ['', 1]]) };

/* The rows of a table of words or choices. */
const table = (post) => source.split(` ${post}[] = {`)[1]?.split('};')[0]
  ?? '';

/* The parameters in a table of words: {name, unit, field}. */
const parameters = (post) => [...table(post).matchAll(
  /"(\w+=)[^"]*",\s*ngx_conf_set_(\w+)_slot,[^,]+,\s*LOC\((\w+)\)/g)]
  .map(([, name, unit, field]) => ({ name, unit, field }));

/* The choices of a directive: [word, value]. */
const choices = (post) => [...table(
  /"", ngx_chat_conf_enum, 0, LOC\(\w+\), (\w+)/.exec(table(post))?.[1]
  ?? post).matchAll(/"(\w+)"\), (\w+)/g)].map(([, word, it]) => [word, it]);

const merged = (field) =>
  new RegExp(`LOC\\(${field}\\), ([^}]+) \\}`).exec(source)?.[1];

/* The default of a directive, from the sources; null: no default value. */
function standard({ name, args, field, post }) {
  const more = parameters(post).map((one) =>
    one.name + written[one.unit](value(merged(one.field))));
  const own = field && merged(field);
  if (name === 'chat_store') {
    const size = written.size(value('NGX_CHAT_SHM_DEFAULT'));
    return `chat_store shm:${size} ttl=${time(value('NGX_CHAT_TTL'))}`;
  }
  if (name === 'chat_tenant') {
    const [, merge] = source.split('ngx_chat_merge_tenant(');
    const credentials = all(merge.split('if (')[0], /"([^"]+)"/g);
    const [, scope] = /conf->server\.value = cscf->(\w+);/.exec(merge);
    return `chat_tenant ${credentials.join('')} scope=$${scope}`;
  }
  if (!own || own === 'NULL') {
    return more.length ? [name, ...more].join(' ') : null;
  }
  const [word] = (post === 'NULL' ? [['off', '0'], ['on', '1']]
    : choices(post)).find(([, it]) => value(it) === value(own));
  assert.ok(post !== 'NULL' || args === 'NGX_CONF_FLAG' || name === 'chat');
  return [name, word, ...more].join(' ');
}

/* A directive's line in the documentation, without its line ends. */
const described = (name, what) => new RegExp(`^    ${what}: +([^]*?)(?=\n    ${
  what === 'context' ? '|' : ''}\\w+:|\n\n)`, 'm').exec(section(name))[1]
  .replace(/\s+/g, ' ');
const section = (name) =>
  directives.split(`### ${name}\n`)[1].split(/\n###? /)[0];

test('every directive is documented, and no other', () => {
  const known = commands.map(({ name }) => name);
  assert.ok(known.length > 15, `${known}`);
  assert.equal(known.length, source.split('ngx_chat_commands[] = {')[1]
    .split('ngx_null_command')[0].match(/"chat/g).length);
  assert.deepEqual(sorted(all(directives, /^### (chat[a-z_]*)$/gm)),
    sorted(known));
});

const contexts = { NGX_CHAT_ANYWHERE: 'http, server, location',
  NGX_HTTP_MAIN_CONF: 'http', NGX_HTTP_LOC_CONF: 'location' };

for (const command of commands) {
  const { name, where, args, post } = command;
  test(`${name}: syntax, default and context are those of the source`, () => {
    assert.equal(described(name, 'context'), contexts[where]);
    const syntax = described(name, 'syntax');
    for (const one of parameters(post)) {
      assert.ok(syntax.includes(`[${one.name}`), one.name);
    }
    /* Alternatives are one word, brackets are optional words. */
    const words = syntax.replaceAll(' | ', '|').split(' ');
    const least = words.filter((word) => !word.startsWith('[')).length - 1;
    const counts = { NGX_CONF_NOARGS: [0, 0], NGX_CONF_FLAG: [1, 1],
      NGX_CONF_TAKE1: [1, 1], NGX_CONF_TAKE2: [2, 2],
      NGX_CONF_TAKE12: [1, 2], NGX_CONF_TAKE123: [1, 3] }[args];
    if (counts) {
      assert.deepEqual([least, words.length - 1], counts, syntax);
    } else {
      assert.equal(args, 'NGX_CONF_1MORE');
    }
    const expected = standard(command);
    const given = described(name, 'default');
    assert.equal(given, expected ?? (name === 'chat_conversation'
      ? 'the dialect\'s own id' : 'none'));
  });
}

test('the options of chat_store are those of the source', () => {
  const table = all(section('chat_store'), /^\| (`\w+=[^|]*) \|/gm)
    .flatMap((cell) => all(cell, /`(\w+=)/g));
  assert.deepEqual(sorted(table),
    sorted(all(headers.split('static const ngx_chat_parameter_t parameters[]')
      [1].split('};')[0], /"(\w+=)/g)));
  assert.ok(section('chat_store').includes(
    `timeout=${time(value('NGX_CHAT_REDIS_TIMEOUT'))}`));
});

/* The contexts of an example: a whole http block, one server, a location. */
const places = (example) => [{ http: example, chat: false },
  { server: example, chat: false }, { location: example, chat: false }];
const around = `upstream chat_app { server 127.0.0.1:9; }
  map $host $user { default u; }`;

/* What nginx -t says about an example, in the first place that fits. */
async function tried(name, example) {
  const text = example.replace(/(password_file=)\S+/, '$1/etc/hostname')
    .replace('redis.example', '127.0.0.1').replace('/var/log/nginx/', '');
  if (name === 'chat_store') {
    return nginxTest({ store: text.replace(/chat_store |;/g, '') });
  }
  const outputs = [];
  for (const { http = '', ...place } of places(text)) {
    const { ok, output } = await nginxTest({ ...place,
      http: `${around} ${http}` });
    if (ok) {
      return { ok };
    }
    outputs.push(output);
  }
  return { output: outputs.join('') };
}

test('each directive has an example that nginx accepts', { skip: unbuilt },
  async () => {
    for (const { name } of commands) {
      const examples = all(section(name), /^```nginx\n([^]*?)^```$/gm);
      assert.ok(examples.some((text) =>
        new RegExp(`^(.*[ {])?${name}[ ;]`, 'm').test(text)), name);
      for (const example of examples) {
        const { ok, output } = await tried(name, example);
        assert.ok(ok, `${example}\n${output}`);
      }
    }
  });
