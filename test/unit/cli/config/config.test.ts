/** Settings: precedence with sources, malformed values, the config file, paths, and where the key is found. */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { isLoopbackUrl } from '#base/util/loopback.js'
import { closest } from '#base/util/suggest.js'
import { readConfigFile, requireSettingKey, updateConfigFile } from '../../../../src/cli/config/config-file.js'
import { findCredential, fingerprint } from '../../../../src/cli/config/credentials.js'
import { loadConfig } from '../../../../src/cli/config/load.js'
import { parseDurationMs } from '../../../../src/cli/config/parse-value.js'
import { resolvePaths } from '../../../../src/cli/config/paths.js'
import { settingKeys, settings } from '../../../../src/cli/config/schema.js'
import { findServerRecord, readServerRecord, writeServerRecord } from '../../../../src/cli/config/server-record.js'

let home = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'trainyard-config-'))
})
afterEach(() => rmSync(home, { recursive: true, force: true, maxRetries: 20 }))

function writeConfig(content: unknown): void {
  const path = resolvePaths({ HOME: home }).configFile
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
}

describe('precedence', () => {
  test('flag beats environment beats file beats default, each with its origin', async () => {
    writeConfig({ project: 'from-file', server: 'http://file:1' })
    const environment = { HOME: home, TRAINYARD_PROJECT: 'from-env', TRAINYARD_SERVER: 'http://env:2/v1/' }
    const config = await loadConfig({ environment, flags: { project: 'from-flag' } })
    expect(config.resolve('project')).toEqual({ value: 'from-flag', source: 'flag', origin: '--project' })
    expect(config.resolve('server')).toEqual({ value: 'http://env:2', source: 'env', origin: 'TRAINYARD_SERVER' })
    const withoutEnv = await loadConfig({ environment: { HOME: home }, flags: {} })
    expect(withoutEnv.resolve('project')).toMatchObject({ value: 'from-file', source: 'file' })
    expect(withoutEnv.resolve('port')).toEqual({ value: 8642, source: 'default', origin: '' })
  })
  test('TRAINYARD_URL beats its older name, an empty variable counts as absent, CI forbids questions', async () => {
    const environment = {
      HOME: home,
      TRAINYARD_URL: 'http://a:1',
      TRAINYARD_SERVER: 'http://b:2',
      TRAINYARD_PROJECT: '',
      CI: 'gitlab',
    }
    const config = await loadConfig({ environment, flags: {} })
    expect(config.get('server')).toBe('http://a:1')
    expect(config.get('project')).toBe('default')
    expect(config.get('no-input')).toBe(true)
  })
  test.each([
    ['TRAINYARD_URL', 'ftp://x', 'TRAINYARD_URL must be a URL'],
    ['TRAINYARD_PORT', '70000', 'TRAINYARD_PORT must be a whole number from 0 to 65535, got "70000"'],
    ['TRAINYARD_TIMEOUT', '30', 'TRAINYARD_TIMEOUT must be a duration'],
    ['TRAINYARD_JSON', 'maybe', 'TRAINYARD_JSON must be 1 or 0'],
    ['TRAINYARD_PRECISION', 'f16', 'one of auto, f32, int8, int4'],
  ])('%s=%s is refused by name', async (name, value, message) => {
    await expect(loadConfig({ environment: { HOME: home, [name]: value }, flags: {} })).rejects.toThrow(message)
  })
  test('a malformed variable does not matter when the flag is given', async () => {
    const config = await loadConfig({ environment: { HOME: home, TRAINYARD_PORT: 'x' }, flags: { port: '0' } })
    expect(config.get('port')).toBe(0)
  })
  test('a list is split at commas, or at line breaks so that a path may hold a comma', async () => {
    const config = await loadConfig({ environment: { HOME: home, TRAINYARD_BASE_MODELS: 'a=/x, b=/y' }, flags: {} })
    expect(config.get('base-models')).toEqual(['a=/x', 'b=/y'])
    const flags = { 'base-models': 'a=/x,1\n' }
    expect((await loadConfig({ environment: { HOME: home }, flags })).get('base-models')).toEqual(['a=/x,1'])
  })
  test.each([
    ['500ms', 500],
    ['1.5s', 1500],
    ['5m', 300_000],
    ['2h', 7_200_000],
  ])('duration %s', (text, ms) => {
    expect(parseDurationMs(text)).toBe(ms)
  })
  test('every setting has a sentence, and no two share a variable or a flag', () => {
    const names = settingKeys
      .flatMap((key) => [...settings[key].env, settings[key].flag])
      .filter((name) => name !== null)
    expect(new Set(names).size).toBe(names.length)
    for (const key of settingKeys) expect(settings[key].summary).toMatch(/^[a-z]/)
  })
})

describe('the config file', () => {
  test('is private, replaced as a whole, and keeps the other keys', async () => {
    const { configFile } = resolvePaths({ HOME: home })
    await updateConfigFile(configFile, 'project', 'games')
    await updateConfigFile(configFile, 'server', 'http://h:1')
    await updateConfigFile(configFile, 'project', null)
    expect(JSON.parse(await readFile(configFile, 'utf8'))).toEqual({ server: 'http://h:1' })
    expect(statSync(configFile).mode & 0o777).toBe(0o600)
  })
  test.each([
    ['{', 'is not valid JSON'],
    ['[]', 'must hold one JSON object'],
    [{ projcet: 'x' }, 'unknown setting "projcet"'],
    [{ port: 'x' }, 'port must be a whole number'],
  ])('%j is refused', async (content, message) => {
    writeConfig(content)
    await expect(readConfigFile(resolvePaths({ HOME: home }).configFile)).rejects.toThrow(message)
  })
  test('a folder that cannot be made is named, not a bug', async () => {
    writeFileSync(join(home, 'taken'), '')
    const { configFile } = resolvePaths({ HOME: home, XDG_CONFIG_HOME: join(home, 'taken') })
    await expect(updateConfigFile(configFile, 'project', 'games')).rejects.toMatchObject({
      code: 'file_unwritable',
      message: expect.stringContaining(`"${configFile}" cannot be written`),
    })
  })
  test('a file that is no settings says what to do with it', async () => {
    writeConfig('{')
    const broken = readConfigFile(resolvePaths({ HOME: home }).configFile)
    await expect(broken).rejects.toMatchObject({ hint: expect.stringContaining('move it away') })
  })
  test('an unknown key is suggested', () => {
    expect(() => requireSettingKey('projct')).toThrow('setting "projct" does not exist')
    expect(closest('projct', settingKeys)).toBe('project')
    expect(closest('qqqqqq', settingKeys)).toBeUndefined()
  })
})

describe('paths', () => {
  test('XDG folders win over the home folder; relative ones are ignored', () => {
    expect(resolvePaths({ HOME: '/h' }).dataDir).toBe('/h/.local/share/trainyard')
    expect(resolvePaths({ HOME: '/h', XDG_DATA_HOME: '/d' }).dataDir).toBe('/d/trainyard')
    expect(isAbsolute(resolvePaths({ HOME: '' }).dataDir)).toBe(true)
    const unknownAccount = (): string => {
      throw new Error('uv_os_get_passwd returned ENOENT')
    }
    expect(resolvePaths({}, unknownAccount).dataDir).toBe('/.local/share/trainyard')
    expect(resolvePaths({ HOME: '/h', XDG_DATA_HOME: 'd' }).dataDir).toBe('/h/.local/share/trainyard')
  })
})

describe('credentials', () => {
  const noStdin = () => Promise.resolve('')
  async function find(environment: Record<string, string>, flags = {}) {
    return await findCredential(await loadConfig({ environment: { HOME: home, ...environment }, flags }), noStdin)
  }
  test('a flag beats the variable; the variable beats its file and the config file', async () => {
    const path = join(home, 'key')
    writeFileSync(path, 'from-file\n')
    writeConfig({ 'api-key': 'from-config' })
    expect(await find({})).toMatchObject({ key: 'from-config', source: 'file' })
    expect(await find({ TRAINYARD_API_KEY_FILE: path })).toMatchObject({ key: 'from-file', source: 'env' })
    expect(await find({ TRAINYARD_API_KEY: 'k', TRAINYARD_API_KEY_FILE: path })).toMatchObject({ key: 'k' })
    expect(await find({ TRAINYARD_API_KEY: 'k' }, { 'api-key-file': path })).toMatchObject({
      key: 'from-file',
      source: 'flag',
    })
  })
  test('- reads the key from standard input', async () => {
    const config = await loadConfig({ environment: { HOME: home }, flags: { 'api-key-file': '-' } })
    expect(await findCredential(config, () => Promise.resolve(' secret \n'))).toMatchObject({ key: 'secret' })
  })
  test('a local server is recognised by its address, whatever loopback name is used; another port is not', async () => {
    const paths = resolvePaths({ HOME: home })
    const apiKeyFile = join(home, 'data', 'api-key')
    mkdirSync(dirname(apiKeyFile))
    writeFileSync(apiKeyFile, 'local-key\n')
    const forget = await writeServerRecord(paths, { url: 'http://127.0.0.1:9999', apiKeyFile, pid: 1 })
    expect(await find({ TRAINYARD_URL: 'http://localhost:9999' })).toMatchObject({ key: 'local-key', source: 'local' })
    expect(await find({ TRAINYARD_URL: 'http://127.0.0.1:9998' })).toBeNull()
    await forget()
    expect(await readServerRecord(paths, 'http://127.0.0.1:9999')).toBeNull()
  })
  test('a server on every address is found by its loopback address', async () => {
    const apiKeyFile = join(home, 'key')
    writeFileSync(apiKeyFile, 'k')
    await writeServerRecord(resolvePaths({ HOME: home }), { url: 'http://0.0.0.0:9999', apiKeyFile, pid: 1 })
    expect(await find({ TRAINYARD_URL: 'http://127.0.0.1:9999' })).toMatchObject({ key: 'k' })
  })
  test('a server is found by its data directory, whatever its port is, and not once it is gone', async () => {
    const paths = resolvePaths({ HOME: home })
    const record = { url: 'http://127.0.0.1:4711', apiKeyFile: join(home, 'data', 'api-key'), pid: 7 }
    const forget = await writeServerRecord(paths, record)
    expect(await findServerRecord(paths, join(home, 'data'))).toEqual(record)
    expect(await findServerRecord(paths, home)).toBeNull()
    await forget()
    expect(await findServerRecord(paths, join(home, 'data'))).toBeNull()
  })
  test('a local key never goes to another machine', async () => {
    const { dataDir } = resolvePaths({ HOME: home })
    mkdirSync(dataDir, { recursive: true })
    writeFileSync(join(dataDir, 'api-key'), 'local-key')
    expect(await find({})).toMatchObject({ key: 'local-key' })
    expect(await find({ TRAINYARD_URL: 'http://example.com:8642' })).toBeNull()
    expect(isLoopbackUrl('http://127.0.0.1.example.com')).toBe(false)
  })
  test('an unreadable or malformed key file is an error, not no key', async () => {
    writeFileSync(join(home, 'bad'), 'two words')
    await expect(find({}, { 'api-key-file': join(home, 'none') })).rejects.toThrow('cannot be read')
    await expect(find({}, { 'api-key-file': join(home, 'bad') })).rejects.toThrow('one API key')
  })
  test('a fingerprint never holds the key', () => {
    expect(fingerprint('ty_0123456789abcdefghij')).toBe('ty_0123…ghij')
    expect(fingerprint('short')).toBe('…')
  })
})
