/**
 * Passwords of a database from a file: which line fits, and what is said where none does.
 */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createPasswordSource, findPassword } from '#plugins/postgres/storage/password-file.js'
import { temporaryDirectory } from '../../../../support/temporary-directory.js'

const TARGET = { host: 'db.internal', port: 5432, database: 'yard', user: 'me' }

describe('a line', () => {
  it.each([
    ['db.internal:5432:yard:me:secret', 'secret'],
    ['*:*:*:*:secret', 'secret'],
    [
      '# db.internal:5432:yard:me:old\ndb.internal:5432:other:me:no\ndb.internal:*:yard:me:first\n*:*:*:*:second',
      'first',
    ],
    ['*:*:*:*:with:colons and \\\\ \\: both', 'with:colons and \\ : both'],
    ['*:*:*:*:', ''],
    ['db.internal:5432:yard:me', null],
    ['db.internal:5433:yard:me:secret', null],
    ['db\\.internal:5432:yard:me:secret', null],
    ['', null],
  ])('%j gives %j', (text, password) => {
    expect(findPassword(text, TARGET)).toBe(password)
  })

  it('of localhost fits a folder of sockets, and names may hold colons', () => {
    expect(findPassword('localhost:5432:yard:me:secret', { ...TARGET, host: '/run/postgresql' })).toBe('secret')
    expect(findPassword('*:*:a\\:b:me:secret', { ...TARGET, database: 'a:b' })).toBe('secret')
  })
})

describe('a file', () => {
  it('is read each time it is asked for; who has a password in the environment needs none', async () => {
    const path = join(await temporaryDirectory(), 'passwords')
    const ask = createPasswordSource({ PGPASSFILE: path })
    await writeFile(path, '*:*:*:*:one\n', { mode: 0o600 })
    expect(await ask?.(TARGET)).toBe('one')
    await writeFile(path, '*:*:*:*:two\n')
    expect(await ask?.(TARGET)).toBe('two')
    expect(createPasswordSource({ PGPASSFILE: path, PGPASSWORD: '' })).toBeNull()
  })

  it('that does not help is told of with its path and the reason', async () => {
    const folder = await temporaryDirectory()
    const refusal = (path: string) =>
      createPasswordSource({ PGPASSFILE: path })?.(TARGET).then(
        () => null,
        ({ code, message }: { code: string; message: string }) => [code, message.replace(folder, '')],
      )
    const open = join(folder, 'open')
    await writeFile(open, '*:*:*:*:secret', { mode: 0o600 })
    await chmod(open, 0o640)
    const asks = 'the database asks for a password, and'
    const unused = 'can be read by others than its owner (mode 640), so it is not used'
    if (process.platform !== 'win32')
      expect(await refusal(open)).toEqual(['database_refused', `${asks} "/open" ${unused}`])
    await writeFile(join(folder, 'other'), 'elsewhere:*:*:*:secret', { mode: 0o600 })
    const missing = 'has no line for db.internal:5432:yard:me'
    expect(await refusal(join(folder, 'other'))).toEqual(['database_refused', `${asks} "/other" ${missing}`])
    expect(await refusal(join(folder, 'none'))).toEqual(['database_refused', `${asks} "/none" does not exist`])
    await mkdir(join(folder, 'folder'))
    expect(await refusal(join(folder, 'folder'))).toEqual(['database_refused', `${asks} "/folder" is no file`])
  })
})
