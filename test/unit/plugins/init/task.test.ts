/** The lines of a written program that start its service, run against a client in place of one. */
import { expect, test } from 'vitest'
import { filesOf } from '../../../../src/plugins/init/files.js'
import { openLocal, type Task } from '../../../../src/plugins/init/task.js'

const task = (baseModel: Task['baseModel']): Task => ({
  ...{ name: 'mine', baseModel, source: 'examples', language: 'program' },
  ...{ training: [], heldOut: [], hasAnswers: true, isTypeScript: false },
})

/** Runs them; a base model that is asked for is downloading first, and ready when it is looked at again. */
async function run(lines: string, known: readonly object[]) {
  const asked: unknown[] = []
  const states = [...known]
  const baseModels = {
    details: async () => ({ data: states.length > 1 ? [states.shift()] : states }),
    add: async (body: object) => {
      asked.push(body)
      states.unshift({ name: 'acme/small', status: 'downloading' }, { name: 'acme/small', status: 'ready' })
    },
  }
  const started: object[] = []
  const startLocal = async (options: object) => {
    started.push(options)
    return { client: { baseModels } }
  }
  class TrainableModel {
    readonly options: object
    constructor(_client: object, options: object) {
      this.options = options
    }
    register() {
      return this.options
    }
  }
  const names = ['startLocal', 'TrainableModel', 'setTimeout']
  const body = new Function(...names, `return (async () => { ${lines}\nreturn model })()`)
  return { model: await body(startLocal, TrainableModel, (go: () => void) => go()), started, asked }
}

test('a base model of a hub is downloaded once, and waited for', async () => {
  const lines = openLocal(task({ name: 'acme/small', path: null, isHub: true }))
  const first = await run(lines, [])
  expect(first.asked).toEqual([{ hub: 'acme/small' }])
  expect(first.started).toEqual([{ dataDir: './data' }])
  expect(first.model).toEqual({ name: 'mine', baseModel: 'acme/small' })
  expect((await run(lines, [{ name: 'acme/small', status: 'ready' }])).asked).toEqual([])
})

test('one of this machine is given at the start', async () => {
  const { started, model } = await run(openLocal(task({ name: 'small', path: '/models/small', isHub: false })), [])
  expect(started).toEqual([{ dataDir: './data', baseModels: [{ name: 'small', sourcePath: '/models/small' }] }])
  expect(model).toEqual({ name: 'mine', baseModel: 'small' })
})

test('one that a server serves is trained there, with the address and the key that the environment names', async () => {
  const asked = task({ name: 'small', path: null, isHub: false, server: 'http://127.0.0.1:8642' })
  const clients: object[] = []
  const body = new Function(
    'createClient',
    'TrainableModel',
    'process',
    `return (async () => { ${openLocal(asked)}\nreturn model })()`,
  )
  const open = (env: object) =>
    body(
      (options: object) => clients.push(options),
      class {
        readonly options: object
        constructor(_client: object, options: object) {
          this.options = options
        }
        register() {
          return this.options
        }
      },
      { env },
    )
  expect(await open({ TRAINYARD_API_KEY: 'k' })).toEqual({ name: 'mine', baseModel: 'small' })
  await open({ TRAINYARD_URL: 'http://elsewhere', TRAINYARD_API_KEY: 'k' })
  expect(clients).toEqual([
    { baseUrl: 'http://127.0.0.1:8642', apiKey: 'k' },
    { baseUrl: 'http://elsewhere', apiKey: 'k' },
  ])
  const files = filesOf({ ...asked, language: 'shell', source: 'conversations' })
  expect(files.get('task.sh')).toContain('TRAINYARD_URL=http://127.0.0.1:8642')
  const program = filesOf(asked).get('task.mjs') ?? ''
  expect(program).toContain("import { createClient, gather, group, TrainableModel } from 'trainyard/rl'")
  expect(program).not.toContain('startLocal')
  expect(program).not.toContain('trainyard serve')
})
