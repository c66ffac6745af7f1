/*
 * debian.mjs: a bare Debian in a folder, and commands in it.
 *
 * mmdebstrap fetches it from the mirror (CHAT_DEBIAN) with this machine's
 * proxies. A command runs in a mount and a PID namespace of its own: no mount
 * appears outside, and its processes end with it. The network is shared.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { newFolder } from '../lib/wait.mjs';

const run = promisify(execFile);
const big = { maxBuffer: 1 << 28 };

const mirror = process.env.CHAT_DEBIAN ?? 'http://deb.debian.org/debian';

const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root',
  LC_ALL: 'C.UTF-8', DEBIAN_FRONTEND: 'noninteractive' };

/* Why this machine cannot run a Debian in a folder, or false. */
export const impossible = (() => {
  if (process.getuid() !== 0) {
    return 'needs root';
  }
  try {
    execFileSync('unshare', ['--mount', '--pid', '--fork', 'true'],
      { stdio: 'ignore' });
    execFileSync('mmdebstrap', ['--version'], { stdio: 'ignore' });
    return false;
  } catch (error) {
    return `needs mmdebstrap and namespaces: ${error.message}`;
  }
})();

/* The Debian release of this machine. */
export const here = execFileSync('sh',
  ['-c', '. /etc/os-release; echo "$VERSION_CODENAME"'],
  { encoding: 'utf8' }).trim();

/* The settings of this machine's apt for downloads, such as proxies. */
function aptSettings() {
  const all = execFileSync('apt-config', ['dump'], { encoding: 'utf8' });
  return all.split('\n').filter((line) =>
    /^Acquire::(https?|Check-|Retries)/.test(line)).join('\n');
}

/* The arguments of unshare for a program in namespaces of its own. */
const enclosed = (proc, command) => ['--mount', '--pid', '--fork',
  '--kill-child', `--mount-proc=${proc}`, ...command];

/*
 * Starts a program as the first process of its namespaces. SIGKILL of the
 * returned process ends it, with all that it has started; end(signal) sends it
 * a signal and returns its exit code.
 */
export function enclose(command, options, proc = '/proc') {
  const outer = spawn('unshare', enclosed(proc, command), options);
  const exited = new Promise((resolve) => { outer.on('exit', resolve); });
  outer.end = (signal) => {
    const [child] = readFileSync(
      `/proc/${outer.pid}/task/${outer.pid}/children`, 'utf8').split(' ');
    process.kill(Number(child), signal);
    return exited;
  };
  return outer;
}

class Debian {
  constructor(dir) {
    this.dir = dir;
    this.proc = `${dir}/proc`;
  }

  inside(command) {
    return ['sh', '-c', 'mount --rbind /dev "$0/dev" '
      + '&& exec chroot "$0" sh -ec "$1"', this.dir, command];
  }

  /* Runs a shell command; returns its output, throws if it fails. */
  async run(command) {
    try {
      const { stdout, stderr } = await run('unshare',
        enclosed(this.proc, this.inside(command)), { ...big, env });
      return stdout + stderr;
    } catch (error) {
      throw new Error(`${command}:\n${error.stdout}${error.stderr}`);
    }
  }

  /* The same with a shell command that execs a program; see enclose(). */
  spawn(command, options) {
    return enclose(this.inside(command), { env, ...options }, this.proc);
  }

  /* The path outside of a file in the root. A link in it may lead outside. */
  path(file) {
    return `${this.dir}/${file}`;
  }

  /* Replaces a file, or a link, by a file with this text. */
  write(file, text, mode = 0o644) {
    rmSync(this.path(file), { force: true });
    writeFileSync(this.path(file), text, { mode });
  }
}

/* The Debian that is in this folder. */
export const rootIn = (dir) => new Debian(dir);

/*
 * Fetches a Debian with these packages into an empty folder. Its apt has
 * package lists and the settings of this machine. Returns false, with the test
 * skipped, if the mirror is not reachable.
 */
async function bootstrap(t, suite, dir, packages) {
  const settings = `${dir}.apt`;
  writeFileSync(settings, aptSettings());
  try {
    await run('mmdebstrap', ['--variant=apt', `--aptopt=${settings}`,
      '--skip=cleanup/apt', ...packages.map((name) => `--include=${name}`),
      suite, dir, mirror], big);
    return true;
  } catch (error) {
    if (/Failed to fetch|Could not (resolve|connect)/.test(error.stderr)) {
      t.skip(`${mirror} is not reachable`);
      return false;
    }
    throw error;
  } finally {
    rmSync(settings);
  }
}

/*
 * A new root, which is removed after the test; null, with the test skipped, if
 * there is none. No package starts a service in it.
 */
export async function debian(t, suite, packages = []) {
  const dir = newFolder();
  t.after(() => execFileSync('rm', ['-rf', '--one-file-system', dir]));
  if (!await bootstrap(t, suite, dir, packages)) {
    return null;
  }
  const it = new Debian(dir);
  it.write('usr/sbin/policy-rc.d', '#!/bin/sh\nexit 101\n', 0o755);
  for (const file of ['etc/hosts', 'etc/resolv.conf']) {
    it.write(file, readFileSync(`/${file}`));
  }
  return it;
}
