/*
 * certificates.mjs: a certificate authority of this process, and certificates
 * that it signs. Their files are removed when the process ends.
 */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { newFolder } from './wait.mjs';

const made = new Map();

/*
 * Paths, made once for each list of names: ca, and cert and key of a server
 * with these names; stranger is a CA that signed none of them.
 */
export function certificates(names = 'DNS:localhost,IP:127.0.0.1') {
  if (made.has(names)) {
    return made.get(names);
  }
  const dir = newFolder();
  process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
  const at = (name) => `${dir}/${name}`;
  const openssl = (...args) => execFileSync('openssl', args,
    { stdio: ['ignore', 'ignore', 'pipe'] });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
    '-nodes'];
  for (const name of ['ca', 'stranger']) {
    openssl('req', '-x509', ...key, '-keyout', at(`${name}.key`),
      '-out', at(`${name}.crt`), '-subj', `/CN=ngx_chat ${name}`,
      '-days', '2');
  }
  openssl('req', ...key, '-keyout', at('server.key'),
    '-out', at('server.csr'), '-subj', '/CN=localhost');
  writeFileSync(at('names'), `subjectAltName=${names}\n`);
  openssl('x509', '-req', '-in', at('server.csr'), '-CA', at('ca.crt'),
    '-CAkey', at('ca.key'), '-CAcreateserial', '-extfile', at('names'),
    '-out', at('server.crt'), '-days', '2');
  made.set(names, { ca: at('ca.crt'), cert: at('server.crt'),
    key: at('server.key'), stranger: at('stranger.crt') });
  return made.get(names);
}
