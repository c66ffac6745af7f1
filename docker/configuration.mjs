/*
 * configuration.mjs: nginx.conf beside this file, adapted to a temporary
 * folder: with this run's module and ports, and no file outside the folder.
 */
import { readFileSync } from 'node:fs';

/* www is the folder of the pages; port, provider and app are ports. */
export function configuration(dir, { module, port, provider, app,
  www = `${dir}/www` }) {
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `    ${name}_temp_path ${dir}/${name};\n`).join('');
  return readFileSync(new URL('nginx.conf', import.meta.url), 'utf8')
    .replace('modules/ngx_chat_module.so', module)
    .replace('127.0.0.1:8080', `127.0.0.1:${port}`)
    .replace('127.0.0.1:8081', `127.0.0.1:${provider}`)
    .replace('127.0.0.1:8082', `127.0.0.1:${app}`)
    .replaceAll(/\broot www;/g, `root ${www};`)
    .replace('http {\n', `http {\n    access_log off;\n${temp}\n`);
}
