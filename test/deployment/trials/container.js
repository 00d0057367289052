/** Trials of what containers do: a user without rights, a root that cannot be written, process 1, signals, rotated logs. */
import { spawnSync } from 'node:child_process'
import { appendFileSync, chownSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import {
  canWrap,
  chat,
  childrenOf,
  expect,
  hasProgram,
  isRoot,
  mayUnshare,
  need,
  readOperations,
  runProgram,
  startJob,
  until,
  useService,
} from '../kit.js'

const WITHOUT_RIGHTS = [
  'setpriv',
  ...['--reuid', '1000', '--regid', '1000', '--clear-groups', '--inh-caps=-all', '--bounding-set=-all'],
  '--no-new-privs',
]

export const CONTAINER_TRIALS = [
  {
    name: 'a user without any right (--user 1000 --cap-drop ALL no-new-privileges)',
    async run(kit) {
      need(isRoot && hasProgram('setpriv'), 'another user needs root and setpriv')
      const place = kit.folder()
      chownSync(place, 1000, 1000)
      need(
        (await kit.command(['--version'], { wrapper: WITHOUT_RIGHTS })).code === 0,
        'another user cannot read this Node.js or package',
      )
      const server = await kit.serve({ wrapper: WITHOUT_RIGHTS, dataDir: path.join(place, 'data') })
      await useService(server)
      const { mode, uid } = statSync(path.join(server.dataDir, 'api-key'))
      expect((mode & 0o777) === 0o600 && uid === 1000, `the key's rights are ${mode.toString(8)} of ${uid}`)
    },
  },
  {
    name: 'a root that cannot be written, one volume, and the documented health check',
    async run(kit) {
      const volume = kit.folder()
      // the root as it is, read-only; what is written is the volume and a small /tmp
      const modules = realpathSync(path.join(kit.packageRoot, 'node_modules'))
      const steps = [
        'mount -t tmpfs -o mode=755 tmpfs /mnt && mkdir /mnt/data /mnt/package /mnt/modules',
        `mount --bind '${volume}' /mnt/data && mount --bind '${kit.packageRoot}' /mnt/package`,
        `mount --bind '${modules}' /mnt/modules`,
        'mount -o remount,ro /mnt && mount -o remount,ro,bind /',
        'mount -t tmpfs -o size=16m tmpfs /tmp',
        // a checkout may lie in /tmp itself, and the package's modules with it
        `[ -e '${modules}' ] || { mkdir -p '${modules}' && mount --bind /mnt/modules '${modules}'; }`,
        'cd / && exec "$@"',
      ]
      const wrapper = ['unshare', '-m', 'sh', '-ec', steps.join('\n'), 'contained']
      need(canWrap(wrapper), 'mounts of its own need root, and a system that lets it have them')
      const server = await kit.serve({ wrapper, dataDir: '/mnt/data/trainyard', root: '/mnt/package' })
      const inside = ['nsenter', '-t', String(server.pid), '-m']
      expect(
        (await runProgram('nsenter', [...inside.slice(1), 'touch', '/etc/x'])).code !== 0,
        'the root can be written',
      )
      await useService(server)
      const quoted = /--health-cmd (".+") \\\n/.exec(readOperations())?.[1]
      expect(quoted !== undefined, 'the documentation has no --health-cmd')
      // the shell that starts the container takes the quotes off, the one inside runs the rest
      const said = spawnSync('sh', ['-c', `printf %s ${quoted}`], { encoding: 'utf8' }).stdout
      const check = said.replace(':8642', `:${new URL(server.url).port}`)
      const healthy = () => spawnSync('sh', ['-c', check]).status
      expect(healthy() === 0, 'the health check fails while it runs')
      await server.stop()
      expect(healthy() === 1, 'the health check does not fail when it is stopped')
    },
  },
  {
    name: 'process 1: signals, children that end, orphans under --init',
    async run(kit) {
      need(mayUnshare('-p', '-f', '--mount-proc'), 'processes of their own need root')
      const space = ['unshare', '-p', '-f', '--kill-child', '--mount-proc']
      const first = await kit.serve({ wrapper: space, isInside: true })
      const [host] = childrenOf(first.pid)
      process.kill(host, 'SIGKILL')
      await until(async () => (await chat(first.api).catch(() => null)) !== null, 'chats go on with a new engine')
      expect(zombiesOf(first.pid).length === 0, 'an engine that ended is left as a zombie')
      await useService(first)
      const stopped = await first.stop()
      expect(stopped.code === 0, `process 1 ends with ${stopped.code ?? stopped.signal}`)

      // what docker run --init puts there; a shell that waits does the same
      const init = hasProgram('tini') ? ['tini', '--'] : ['sh', '-c', INIT, 'init']
      const second = await kit.serve({ wrapper: [...space, ...init], isInside: true })
      const [server] = childrenOf(second.pid)
      const orphan = spawnSync('nsenter', ['-t', String(server), '-p', '-m', 'sh', '-c', '(sleep 0.1 &); exit 0'])
      expect(orphan.status === 0, 'no orphan could be made')
      await until(() => childrenOf(second.pid).length === 1, 'the orphan is reaped', 20_000)
      await chat(second.api)
      expect((await second.stop()).code === 0, 'a signal does not reach the server through init')
    },
  },
  {
    name: 'signals: what runs ends or goes on later, nothing is lost',
    async run(kit) {
      const dataDir = path.join(kit.folder(), 'data')
      let going
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
        const server = await kit.serve({ dataDir })
        if (going !== undefined) await server.api.waitForJob(going.jobId)
        going = await startJob(server.api, `until-${signal.toLowerCase()}`, { times: 15 })
        const route = `/v1/preview/training-jobs/${going.jobId}/events?limit=1`
        await until(async () => (await server.api.call('GET', route)).data.length > 0, 'the job begins')
        const stream = await fetch(`${server.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
          body: JSON.stringify({
            model: 'trainyard/spark',
            messages: [{ role: 'user', content: 'Hello' }],
            stream: true,
            max_tokens: 64,
          }),
        })
        const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader()
        let text = (await reader.read()).value
        const ending = server.stop(signal)
        for (;;) {
          const { done, value } = await reader.read()
          if (done) break
          text += value
        }
        expect(text.endsWith('data: [DONE]\n\n'), `${signal}: a running answer was cut: ${text.slice(-200)}`)
        const { code } = await ending
        expect(code === 0, `${signal}: it ends with ${code}: ${server.log().slice(-500)}`)
      }
      const server = await kit.serve({ dataDir })
      await server.api.waitForJob(going.jobId)
      expect((await chat(server.api, going.model)).choices[0], 'the model that went on does not answer')
    },
  },
  {
    name: 'rotated logs are whole lines of JSON',
    async run(kit) {
      const place = kit.folder()
      const logFile = path.join(place, 'trainyard.log')
      writeFileSync(logFile, '')
      const server = await kit.serve({ logFile, args: ['--log-format', 'json', '--log-level', 'debug'] })
      const documented = /```logrotate\n([\s\S]+?)```/.exec(readOperations())?.[1]
      expect(documented !== undefined, 'the documentation has no configuration for logrotate')
      for (let round = 1; round <= 3; round += 1) {
        await chat(server.api)
        // a line of the log is written behind the answer
        await until(() => statSync(logFile).size > 0, 'a line of the log')
        const size = statSync(logFile).size
        rotate(place, logFile, documented)
        expect(statSync(logFile).size < size, 'the file did not begin again')
      }
      await chat(server.api)
      await until(() => statSync(logFile).size > 0, 'lines after the rotation')
      await server.stop()
      for (const file of [logFile, `${logFile}.1`]) {
        for (const line of readFileSync(file, 'utf8').trim().split('\n')) {
          expect(isJson(line), `${path.basename(file)} has a line that is no JSON: ${line.slice(0, 200)}`)
        }
      }
    },
  },
]

const INIT =
  '"$@" & child=$!; trap \'kill -TERM $child\' TERM INT; wait $child; code=$?; while [ $code -gt 128 ]; do wait $child; code=$?; done; exit $code'

function isJson(line) {
  try {
    return typeof JSON.parse(line) === 'object'
  } catch {
    return false
  }
}

/** Debian's logrotate with the documented lines; without it, what copytruncate does. */
function rotate(place, logFile, documented) {
  if (!isRoot || !hasProgram('logrotate')) {
    appendFileSync(`${logFile}.1`, readFileSync(logFile))
    writeFileSync(logFile, '')
    return
  }
  const config = path.join(place, 'logrotate.conf')
  writeFileSync(config, documented.replace(/^\S+ \{/m, `${logFile} {`))
  const done = spawnSync('logrotate', ['--force', '--state', path.join(place, 'state'), config], { encoding: 'utf8' })
  expect(done.status === 0, `logrotate says ${done.stderr}`)
}

function zombiesOf(pid) {
  return childrenOf(pid).filter((child) => / Z /.test(readFileSync(`/proc/${child}/stat`, 'utf8')))
}
