/*
 * docker.mjs: a Docker daemon of the test's own, and debian:12 in it.
 *
 * The daemon has its own socket and folder, and changes no firewall rule. It
 * is the first process of its PID namespace: all containers end with it. The
 * image is made by mmdebstrap, with the registries of this machine.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { newFolder, until } from '../lib/wait.mjs';
import { debian, enclose } from './debian.mjs';

const run = promisify(execFile);

/* Settings for downloads that the image takes from this machine. */
const taken = ['http_proxy', 'https_proxy', 'no_proxy'];
const certificates = '/etc/ssl/this-machine.pem';

/* cleanups: functions that are called before the daemon ends. */
class Docker {
  constructor(dir) {
    this.dir = dir;
    this.cleanups = [];
    mkdirSync(`${dir}/client`);
    this.env = { ...process.env, DOCKER_HOST: `unix://${dir}/docker.sock`,
      DOCKER_CONFIG: `${dir}/client`, DOCKER_BUILDKIT: '0',
      COMPOSE_DOCKER_CLI_BUILD: '0', COMPOSE_PROJECT_NAME: 'ngxchat' };
  }

  /* Runs docker or docker-compose; returns its output, throws if it fails. */
  async run(program, args, env = {}) {
    try {
      const { stdout, stderr } = await run(program, args,
        { env: { ...this.env, ...env }, maxBuffer: 1 << 28 });
      return stdout + stderr;
    } catch (error) {
      throw new Error(`${program} ${args.join(' ')}:\n${
        `${error.stdout}${error.stderr}`.slice(-4000)}`);
    }
  }

  docker(...args) {
    return this.run('docker', args);
  }

  log() {
    return readFileSync(`${this.dir}/log`, 'utf8');
  }
}

/* Starts a daemon, which ends with the test; null if none starts here. */
export async function docker(t) {
  const dir = newFolder('/var/tmp');
  const it = new Docker(dir);
  const log = openSync(`${dir}/log`, 'w');
  const daemon = enclose(['dockerd', '--data-root', `${dir}/data`,
    '--exec-root', `${dir}/exec`, '--pidfile', `${dir}/pid`,
    '--host', it.env.DOCKER_HOST, '--bridge', 'none', '--iptables=false',
    '--ip-masq=false', '--containerd-namespace', 'ngx_chat',
    '--containerd-plugins-namespace', 'ngx_chat_plugins'],
  { stdio: ['ignore', log, log] });
  let ended = false;
  daemon.on('error', () => { ended = true; });
  daemon.on('exit', () => { ended = true; });
  t.after(async () => {
    for (const cleanup of it.cleanups) {
      await cleanup().catch((error) => t.diagnostic(error.message));
    }
    if (!ended) {
      const late = setTimeout(() => daemon.kill('SIGKILL'), 30000);
      await daemon.end('SIGTERM');
      clearTimeout(late);
    }
    execFileSync('rm', ['-rf', '--one-file-system', dir]);
  });
  await until(async () => ended
    || (existsSync(`${dir}/docker.sock`)
      && await it.docker('version').catch(() => false)), 15000, 'dockerd');
  if (ended) {
    t.diagnostic(`dockerd does not run here: ${it.log().trim().slice(-500)}`);
    return null;
  }
  return it;
}

/*
 * A bare Debian 12 and the environment, NAME=VALUE, in which it reaches this
 * machine's registries; null if the test is skipped.
 */
export async function base(t) {
  const machine = await debian(t, 'bookworm', ['ca-certificates']);
  if (!machine) {
    return null;
  }
  const registry = execFileSync('npm', ['config', 'get', 'registry'],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  const env = [`npm_config_registry=${registry}`,
    ...taken.filter((name) => process.env[name])
      .map((name) => `${name}=${process.env[name]}`)];
  const extra = process.env.NODE_EXTRA_CA_CERTS;
  if (extra) {
    machine.write(certificates, readFileSync(extra));
    env.push(`NODE_EXTRA_CA_CERTS=${certificates}`,
      `npm_config_cafile=${certificates}`);
  }
  return { machine, env };
}

/* Imports it as debian:12; false if the test is skipped. */
export async function importDebian(t, it) {
  const { machine, env } = await base(t) ?? {};
  if (!machine) {
    return false;
  }
  const tar = spawn('tar', ['-C', machine.dir, '-c', '.'],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  const docker = spawn('docker', ['import',
    ...env.flatMap((pair) => ['--change', `ENV ${pair}`]), '-', 'debian:12'],
  { env: it.env, stdio: [tar.stdout, 'ignore', 'inherit'] });
  const [code] = await once(docker, 'exit');
  if (code !== 0) {
    throw new Error(`docker import ended with ${code}`);
  }
  return true;
}
