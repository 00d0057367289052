/** Trials of time: data of every version before, two versions after each other, a backup that is restored elsewhere. */
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { promisify } from 'node:util'
import { chat, expect, need, ROOT, useService } from '../kit.js'

const run = promisify(execFile)
const FIXTURES = path.join(ROOT, 'test/fixtures/databases')
/** As `test/support/service/database-fixture.ts` makes it. */
const FIXTURE_KEY = `ty_${'fixture'.repeat(6)}x`
const MIGRATIONS = 'src/service/storage/migrations/index.ts'

export const VERSION_TRIALS = [
  {
    name: 'data directories of every version before',
    async run(kit) {
      const Database = findSqlite()
      const all = readdirSync(FIXTURES).sort()
      for (const name of kit.isShort ? [all[0], all.at(-1)] : all) {
        const dataDir = path.join(kit.folder(), 'data')
        mkdirSync(dataDir, { mode: 0o700 })
        const database = new Database(path.join(dataDir, 'trainyard.sqlite3'))
        database.exec(readFileSync(path.join(FIXTURES, name), 'utf8'))
        database.close()
        const server = await kit.serve({ dataDir, args: ['--train-workers', '0'], key: FIXTURE_KEY })
        const { data } = await server.api.call('GET', '/v1/preview/models')
        expect(data.length === 1 && data[0].name === 'chess', `${name}: its models are ${JSON.stringify(data)}`)
        const jobs = await server.api.call('GET', '/v1/preview/training-jobs')
        expect(jobs.data.length === 2, `${name}: ${jobs.data.length} jobs of two`)
        await chat(server.api)
        expect((await server.stop()).code === 0, `${name}: it does not stop`)
      }
    },
  },
  {
    name: 'two versions after each other on the same data',
    isLong: true,
    async run(kit) {
      const older = await buildOlder(kit)
      const dataDir = path.join(kit.folder(), 'data')
      const before = await kit.serve({ dataDir, root: older.root })
      const { model } = await useService(before, 'kept')
      const said = (await chat(before.api, model, { temperature: 0 })).choices[0].message.content
      await before.stop()
      const backup = path.join(kit.folder(), 'before.tar')
      const save = (...place) => kit.command(['backup', ...place, '--data-dir', dataDir], { root: older.root })
      const named = await save('--out', backup)
      // the oldest versions take it as an argument
      const saved = named.code === 2 ? await save(backup) : named
      expect(saved.code === 0, `the older version's backup says ${saved.stderr}`)

      const after = await kit.serve({ dataDir })
      const says = (await chat(after.api, model, { temperature: 0 })).choices[0].message.content
      expect(says === said, `the model said ${said} and says ${says}`)
      await useService(after, 'newer')
      await after.stop()

      // the way back is the backup; the data itself is refused with a sentence
      const refused = await kit.command(['serve', '--port', '0', '--data-dir', dataDir], { root: older.root })
      expect(refused.code !== 0 && /newer/.test(refused.stderr), `the older version says ${refused.stderr}`)
      const back = path.join(kit.folder(), 'back')
      const restored = await kit.command(['restore', backup, '--data-dir', back], { root: older.root })
      expect(restored.code === 0, `restore says ${restored.stderr}`)
      await chat((await kit.serve({ dataDir: back, root: older.root })).api, model)
    },
  },
  {
    name: 'a backup of a running server, restored elsewhere',
    async run(kit) {
      const server = await kit.serve()
      const { model } = await useService(server)
      const said = (await chat(server.api, model, { temperature: 0 })).choices[0].message.content
      const file = path.join(kit.folder(), 'today.tar')
      const saved = await kit.command(['backup', '--out', file, '--data-dir', server.dataDir])
      expect(saved.code === 0, `backup says ${saved.stderr}`)
      await server.stop()
      const place = path.join(kit.folder(), 'a place with spaces, and ü')
      const restored = await kit.command(['restore', file, '--data-dir', place])
      expect(restored.code === 0, `restore says ${restored.stderr}`)
      const elsewhere = await kit.serve({ dataDir: place })
      expect(elsewhere.key === server.key, 'the key is another one')
      const says = (await chat(elsewhere.api, model, { temperature: 0 })).choices[0].message.content
      expect(says === said, `the model said ${said} and says ${says}`)
      await useService(elsewhere, 'after')
    },
  },
]

function findSqlite() {
  const require = createRequire(path.join(ROOT, 'package.json'))
  const [major] = process.versions.node.split('.')
  return require(Number(major) < 22 ? 'better-sqlite3-12' : 'better-sqlite3')
}

/** The version before the newest migration, built from this repository's history with this checkout's dependencies. */
async function buildOlder(kit) {
  const git = async (...args) => (await run('git', args, { cwd: ROOT, maxBuffer: 2 ** 26 })).stdout.trim()
  const commit = await git('log', '-1', '--format=%H', '--', MIGRATIONS)
    .then((newest) => git('rev-parse', '--verify', `${newest}^`))
    .catch(() => null)
  need(commit !== null, 'the history has no version before the newest migration')
  const root = kit.folder()
  await run('sh', ['-c', `git archive ${commit} | tar -x -C '${root}'`], { cwd: ROOT })
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(root, 'node_modules'))
  await run('npm', ['run', '--silent', 'build'], { cwd: root, maxBuffer: 2 ** 26 })
  return { root }
}
