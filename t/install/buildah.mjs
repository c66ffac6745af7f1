/*
 * buildah.mjs: the image of a Dockerfile where no Docker daemon runs.
 *
 * buildah needs no daemon: a step of the Dockerfile runs in a chroot.
 */
import { execFile, execFileSync } from 'node:child_process';
import { promisify } from 'node:util';
import { root } from '../lib/harness.mjs';
import { newFolder } from '../lib/wait.mjs';
import { rootIn } from './debian.mjs';
import { base } from './docker.mjs';

const run = promisify(execFile);

/*
 * Builds the image: its root, which is removed after the test; null, with the
 * test skipped, if buildah does not run here.
 */
export async function image(t, dockerfile) {
  const dir = newFolder('/var/tmp');
  const buildah = async (...args) => {
    const { stdout } = await run('buildah', ['--root', `${dir}/data`,
      '--runroot', `${dir}/run`, ...args], { maxBuffer: 1 << 28 });
    return stdout.trim();
  };
  t.after(async () => {
    await buildah('rm', '--all').catch(() => {});
    execFileSync('rm', ['-rf', '--one-file-system', dir]);
  });
  try {
    await buildah('from', '--name', 'base', 'scratch');
  } catch (error) {
    t.skip(`neither dockerd nor buildah runs here: ${error.message}`);
    return null;
  }
  const debian = await base(t);
  if (!debian) {
    return null;
  }
  await buildah('config', ...debian.env.flatMap((pair) => ['--env', pair]),
    'base');
  await run('sh', ['-c', 'tar -C "$0" -c . | tar -C "$1" -x',
    debian.machine.dir, await buildah('mount', 'base')]);
  await buildah('commit', 'base', 'debian:12');
  await buildah('bud', '--isolation', 'chroot', '-t', 'image',
    '-f', root + dockerfile, root);
  await buildah('from', '--name', 'made', 'image');
  return rootIn(await buildah('mount', 'made'));
}
