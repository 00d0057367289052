/**
 * Who may hold what of a service. What only tests may do has a door of its own: nothing that is shipped goes through it, and the public
 * types do not know of it. Operations hold the parts they name.
 */
import { expect, test } from 'vitest'
import type { Service, ServiceOptions } from '../../src/index.js'
import { readSourceTree } from './source-tree.js'

const DOOR = 'src/service/test-door.ts'
const files = readSourceTree()

test('no source and no command imports the door of tests', () => {
  expect(files.some((file) => file.path === DOOR)).toBe(true)
  const through = files.filter((file) => file.imports.some(({ target }) => target === DOOR))
  expect(through.map((file) => file.path)).toEqual([])
})

test('a service with replaced parts is started by that door alone', () => {
  const starting = files.filter((file) => /\bstartService\b/.test(file.code)).map((file) => file.path)
  expect(starting.sort()).toEqual(['src/service/create-service.ts', DOOR])
})

test('the public types have no hooks of tests', () => {
  // @ts-expect-error what is replaced is no option
  const options: ServiceOptions = { dataDir: '.', seams: {} }
  // @ts-expect-error processes are not a caller's business
  const pids = (service: Service): unknown => [service.enginePids, service.idleWorkerPids]
  // @ts-expect-error times of tests are no option
  const tuned: ServiceOptions = { dataDir: '.', tuning: {} }
  expect([options, pids, tuned]).toHaveLength(3)
})

test('an operation names the parts of the service that it works with; only the assembly has all of them', () => {
  // a plugin takes what it names of what it is given
  const homes = ['src/service/operations/context.ts', 'src/service/assembly/operations.ts', 'src/service/plugin.ts']
  const whole = files
    .filter((file) => !homes.includes(file.path))
    .filter((file) =>
      /(?<!Pick<\s*)\bServiceContext\b(?!\[)/.test(file.code.replaceAll(/^import[^;]*?from '[^']*'$/gm, '')),
    )
  expect(whole.map((file) => file.path)).toEqual([])
})
