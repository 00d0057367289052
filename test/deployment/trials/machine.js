/** Trials of unusual machines: no home, little room, a wrong clock, one kind of address, a port that is taken, narrow limits. */
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { canWrap, chat, expect, hasProgram, isRoot, mountSmall, need, startJob, until, useService } from '../kit.js'

const FAKETIME = ['x86_64', 'aarch64']
  .map((machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`)
  .find((file) => existsSync(file))

export const MACHINE_TRIALS = [
  {
    name: 'a user without a home and without an account',
    async run(kit) {
      need(isRoot && hasProgram('setpriv'), 'another user needs root and setpriv')
      const place = kit.folder()
      chownSync(place, 54_321, 54_321)
      const wrapper = ['setpriv', '--reuid', '54321', '--regid', '54321', '--clear-groups']
      const options = { wrapper, env: { HOME: undefined, USER: undefined } }
      need((await kit.command(['--version'], options)).code === 0, 'another user cannot read this Node.js or package')
      const server = await kit.serve({ ...options, dataDir: path.join(place, 'data') })
      await useService(server)
      // a home that is another's: said, with what to do
      const foreign = kit.folder()
      mkdirSync(path.join(foreign, '.config'), { mode: 0o700 })
      const unreadable = await kit.command(['config', 'list'], { wrapper, env: { HOME: foreign } })
      expect(unreadable.code === 2 && /XDG_CONFIG_HOME/.test(unreadable.stderr), `it says ${unreadable.stderr}`)
      // without --data-dir there is no place to guess
      const { code, stderr } = await kit.command(['serve', '--port', '0'], options)
      expect(code !== 0 && /--data-dir/.test(stderr), `serve without a place says ${code}: ${stderr}`)
    },
  },
  {
    name: 'a temporary folder of one megabyte',
    async run(kit) {
      const tmp = mountSmall(kit, '1m', ',mode=1777')
      const server = await kit.serve({ env: { TMPDIR: tmp } })
      await useService(server)
      const file = path.join(kit.folder(), 'backup.tar')
      const options = { env: { TMPDIR: tmp } }
      const { code, stderr } = await kit.command(['backup', '--out', file, '--data-dir', server.dataDir], options)
      expect(code === 0, `backup says ${stderr}`)
    },
  },
  {
    name: 'a disk that is nearly full, and has room again',
    async run(kit) {
      const place = mountSmall(kit, '96m')
      const server = await kit.serve({ dataDir: path.join(place, 'data') })
      await useService(server, 'before')
      const ballast = path.join(place, 'ballast')
      spawnSync('sh', ['-c', `head -c 200M /dev/zero > '${ballast}'`], { stdio: 'ignore' })
      const big = [{ messages: [{ role: 'user', content: 'x'.repeat(200_000) }] }]
      const refused = await server.api.uploadRows(big).catch((error) => String(error))
      expect(/disk_full/.test(refused), `an upload on a full disk gives ${refused}`)
      await chat(server.api)
      await chat(server.api, 'local/demo/before')
      rmSync(ballast)
      await useService(server, 'after')
    },
  },
  {
    name: 'a clock that is years off, then right',
    async run(kit) {
      need(FAKETIME !== undefined, 'libfaketime is not installed')
      const dataDir = path.join(kit.folder(), 'data')
      const wrong = (date) => ({ LD_PRELOAD: FAKETIME, FAKETIME: date, FAKETIME_DONT_FAKE_MONOTONIC: '1' })
      const { key } = await eachStart(kit, dataDir, [
        ['early', wrong('@2001-02-03 04:05:06')],
        ['late', wrong('@2055-02-03 04:05:06')],
        ['right', {}],
      ])
      const server = await kit.serve({ dataDir })
      const { data } = await server.api.call('GET', '/v1/preview/models')
      expect(data.length === 3, `three models were made, ${data.length} are listed`)
      for (const name of ['early', 'late', 'right']) await chat(server.api, `local/demo/${name}`)
      expect(server.key === key, 'the key is another one')
    },
  },
  {
    name: 'IPv6 alone',
    async run(kit) {
      need(existsSync('/proc/net/if_inet6'), 'this system has no IPv6')
      const alone = 'ip link set lo up && ip -4 addr flush dev lo && exec "$@"'
      const wrapper = ['unshare', '-n', 'sh', '-c', alone, 'alone']
      need(canWrap(wrapper), 'a network of its own needs root and iproute2')
      const server = await kit.serve({ wrapper, args: ['--host', '::1'] })
      expect(/^http:\/\/\[::1\]:\d+$/.test(server.url), `it says that it listens at ${server.url}`)
      const inside = ['nsenter', '-t', String(server.pid), '-n']
      const env = { TRAINYARD_URL: server.url, TRAINYARD_API_KEY: server.key }
      const answer = await kit.command(['chat', 'trainyard/spark', 'Hello', '--json'], { wrapper: inside, env })
      expect(answer.code === 0 && JSON.parse(answer.stdout).choices[0], `chat says ${answer.stderr}`)
      // where 127.0.0.1 does not exist the default says so
      const place = path.join(kit.folder(), 'data')
      const refused = await kit.command(['serve', '--port', '0', '--data-dir', place], { wrapper })
      expect(refused.code !== 0 && /127\.0\.0\.1/.test(refused.stderr), `the default says ${refused.stderr}`)
      expect(/--host/.test(refused.stderr), `it does not name --host: ${refused.stderr}`)
    },
  },
  {
    name: 'a port that is taken',
    async run(kit) {
      const first = await kit.serve()
      const port = new URL(first.url).port
      const place = path.join(kit.folder(), 'data')
      const { code, stderr } = await kit.command(['serve', '--port', port, '--data-dir', place])
      expect(code !== 0 && stderr.includes(port) && /--port/.test(stderr), `it says ${code}: ${stderr}`)
      expect(!existsSync(path.join(place, 'api-key')), 'a start that failed left a key')
      await chat(first.api)
      const again = await kit.command(['serve', '--port', '0', '--data-dir', first.dataDir])
      expect(
        again.code !== 0 && /used by another server/.test(again.stderr),
        `a second on its data says ${again.stderr}`,
      )
    },
  },
  {
    name: '512 MB of memory and half a core',
    isLong: true,
    async run(kit) {
      const { procs, killed } = makeLimits(kit)
      const wrapper = ['sh', '-c', `for file in ${procs}; do echo $$ > $file; done; exec "$@"`, 'limited']
      const place = path.join(kit.folder(), 'data')
      const demo = ['demo', '--seed', '1', '--steps', '2', '--json', '--data-dir', place]
      const { code, stdout, stderr } = await kit.command(demo, { wrapper })
      const steps = stdout.split('\n').filter((line) => line.includes('"demo.step"')).length
      expect(code === 0 && steps === 2, `the demo ends with ${code} after ${steps} steps: ${stderr}`)
      expect(killed() === 0, `the system ended ${killed()} processes for want of memory`)
    },
  },
]

/** One start after another on the same data, each with a model of its own that learns. */
async function eachStart(kit, dataDir, starts) {
  let key
  for (const [name, env] of starts) {
    const server = await kit.serve({ dataDir, env })
    key ??= server.key
    const { jobId, model } = await startJob(server.api, name)
    await server.api.waitForJob(jobId)
    await chat(server.api, model)
    expect((await server.stop()).code === 0, `${name}: it does not stop: ${server.log().slice(-500)}`)
  }
  return { key }
}

/** A control group with both limits. @throws {Skipped} where the system does not let us */
function makeLimits(kit) {
  const name = `trainyard-trial-${process.pid}`
  const isOld = existsSync('/sys/fs/cgroup/memory/memory.limit_in_bytes')
  const groups = isOld
    ? [
        ['/sys/fs/cgroup/memory', { 'memory.limit_in_bytes': String(512 * 2 ** 20) }],
        ['/sys/fs/cgroup/cpu', { 'cpu.cfs_quota_us': '50000' }],
      ]
    : [['/sys/fs/cgroup', { 'memory.max': String(512 * 2 ** 20), 'cpu.max': '50000 100000' }]]
  const paths = groups.map(([parent]) => path.join(parent, name))
  kit.atEnd(async () => {
    for (const place of paths) {
      if (!existsSync(place)) continue
      await until(
        () => readFileSync(path.join(place, 'cgroup.procs'), 'utf8') === '',
        'all processes of the group gone',
      )
      rmdirSync(place)
    }
  })
  try {
    for (const [i, [, files]] of groups.entries()) {
      mkdirSync(paths[i])
      for (const [file, text] of Object.entries(files)) writeFileSync(path.join(paths[i], file), text)
    }
  } catch {
    need(false, 'control groups cannot be made here (root, and a group that delegates memory and cpu)')
  }
  const events = path.join(paths[0], isOld ? 'memory.oom_control' : 'memory.events')
  return {
    procs: paths.map((place) => path.join(place, 'cgroup.procs')).join(' '),
    killed: () => Number(/^oom_kill (\d+)$/m.exec(readFileSync(events, 'utf8'))?.[1]),
  }
}
