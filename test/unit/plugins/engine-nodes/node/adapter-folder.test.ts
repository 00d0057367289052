import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { AppError } from '#base/errors/errors.js'
import { openAdapterFolder } from '#plugins/engine-nodes/node/adapter-folder.js'
import { until } from '../../../../support/until.js'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-adapters-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const BYTES = Buffer.from('adapter')
const files = [{ name: 'weights', sha256: createHash('sha256').update(BYTES).digest('hex') }]
const [A, B, C] = ['a', 'b', 'c'].map((letter) => letter.repeat(64)) as [string, string, string]

it('an adapter that is being fetched is not dropped for another, and each fetch has a folder of its own', async () => {
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  const dropped: string[] = []
  const adapters = await openAdapterFolder({
    list: async (digest) => {
      if (digest === A) await gate
      return { digest, checkpoint: digest, files }
    },
    open: async () =>
      (async function* () {
        yield BYTES
      })(),
    directory: join(directory, 'adapters'),
    most: 1,
    onDrop: async (digest) => void dropped.push(digest),
  })
  const slow = adapters.ensure(A)
  const b = await adapters.ensure(B)
  expect(dropped).toEqual([])
  await adapters.ensure(C)
  expect(dropped).toEqual([B])
  await until(() => !existsSync(b.folder), 'files that are gone')
  open()
  const a = await slow
  expect(existsSync(a.files['weights']?.path ?? '')).toBe(true)
  expect(adapters.held()).toContain(A)
  expect((await adapters.ensure(B)).folder).not.toBe(b.folder)
})

it('a name that is no digest becomes no path', async () => {
  const unasked = (): never => {
    throw new Error('asked')
  }
  const adapters = await openAdapterFolder({ list: unasked, open: unasked, directory: join(directory, 'a'), most: 1 })
  await expect(adapters.ensure('../../x')).rejects.toMatchObject({ code: 'invalid_value' })
})

it('a file whose connection breaks is asked for again, and one that is refused is not', async () => {
  let asked = 0
  const adapters = await openAdapterFolder({
    list: async (digest) => ({ digest, checkpoint: digest, files }),
    open: async (digest) => {
      asked += 1
      if (digest === B) throw new AppError('unavailable', 'server_unreachable', 'away')
      const isBroken = asked < 3
      return (async function* () {
        yield BYTES
        if (isBroken) throw new Error('it broke')
      })()
    },
    directory: join(directory, 'adapters'),
    most: 2,
  })
  await adapters.ensure(A)
  expect(asked).toBe(3)
  await expect(adapters.ensure(B)).rejects.toMatchObject({ code: 'server_unreachable' })
  expect(asked).toBe(4)
})

it('a folder that cannot be let go ends nothing', async () => {
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  try {
    const adapters = await openAdapterFolder({
      list: async (digest) => ({ digest, checkpoint: digest, files: [] }),
      open: () => Promise.reject(new Error('asked')),
      directory: join(directory, 'adapters'),
      most: 1,
      onDrop: () => Promise.reject(new Error('it is not let go')),
    })
    await adapters.ensure(A)
    await adapters.ensure(B)
    await adapters.ensure(C)
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', note)
  }
})
