/**
 * Graders in Python: what they score, and sixteen and more that mean harm. Each ends within its limit and a second by its
 * flag, and the next answer of the same process is graded as if nothing had been.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { GradingError } from '#plugins/graders/grading/grade-errors.js'
import { createLocalPython } from '#plugins/graders/grading/python/local-python.js'
import { createPythonGraders, type PythonGraders } from '#plugins/graders/grading/python/python-graders.js'
import { readGrader } from '#plugins/graders/grading/spec.js'
import { noWalls, PYTHON } from '../../support/python-walls.js'
import { until } from '../../support/until.js'

const SECONDS = 2
const SECRET = 'a key that nobody is to see'
const wall = await noWalls()
const NAMESPACES = { sample: { output_text: 'Paris' }, item: { answer: 'Paris', id: 12_345_678_901 } }

let folder = ''
let graders: PythonGraders
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-hidden-'))
  writeFileSync(join(folder, 'api-key'), SECRET)
  graders = create()
})
afterAll(async () => {
  await graders.stop()
  rmSync(folder, { recursive: true, force: true })
})

const create = (more: object = {}): PythonGraders =>
  createPythonGraders({
    ...{ python: PYTHON, walls: 'needed' as const, hidden: [folder], limits: { seconds: SECONDS } },
    environment: {
      ...process.env,
      TESTS_OF: folder,
      TRAINYARD_API_KEY: SECRET,
      TRAINYARD_PASS_ENVIRONMENT: 'TRAINYARD_API_KEY',
    },
    ...more,
  })
const source = (...lines: readonly string[]): string => lines.join('\n')
const graded = (body: string, head = '') => source(head, 'def grade(sample, item):', `  ${body}`)

/** The score, or the flag with its message, and how long it took. */
async function run(text: string, of = graders) {
  const begunMs = performance.now()
  const said = await of.grade(text, NAMESPACES, {}).catch((error: unknown) => {
    if (error instanceof GradingError) return error
    throw error
  })
  const seconds = (performance.now() - begunMs) / 1000
  return { score: said instanceof Error ? null : said, flag: said instanceof Error ? said.flag : null, said, seconds }
}
const details = (said: unknown): string => (said instanceof Error ? said.message : '')

/** What the system says of a process; nothing where there is none. */
function said(pid: string, name: string): string {
  try {
    return readFileSync(join('/proc', pid, name), 'utf8')
  } catch {
    return ''
  }
}
const isGrader = (pid: string): boolean => said(pid, 'cmdline').includes('graders/grading/python/run.py')

/** Whether it was started here: other tests may run graders, too. */
function isOwn(pid: string): boolean {
  // the fourth field, behind a name in parentheses
  const parent = said(pid, 'stat').split(') ').at(-1)?.split(' ')[1] ?? '0'
  return parent !== '0' && (parent === `${process.pid}` || isOwn(parent))
}
const processes = (): readonly string[] =>
  readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isGrader(name) && isOwn(name))

describe.skipIf(wall !== null)('graders in Python', () => {
  it.each([
    ['a number', graded("return 1.0 if sample['output_text'] == item['answer'] else 0.0"), 1],
    ['a truth', graded("return sample['output_text'] == item['answer']"), 1],
    ['a whole number, and big ones of the row', graded("return item['id'] - 12345678900"), 1],
    ['what is like a number', graded("return Decimal('0.25')", 'from decimal import Decimal'), 0.25],
    ['by a library', graded("return len(re.findall('a', sample['output_text']))", 'import re'), 1],
    [
      'with a folder of its own',
      graded("open('/tmp/x', 'w').write('1'); return len(os.listdir('/tmp'))", 'import os'),
      1,
    ],
    ['with a loop of events', graded('return asyncio.run(asyncio.sleep(0, 0.5))', 'import asyncio'), 0.5],
  ])('score %s', async (_, text, score) => {
    expect(await run(text)).toMatchObject({ score })
    // once more, by a process that is warm
    expect(await run(text)).toMatchObject({ score })
  })

  it('know nothing of the answer before', async () => {
    const text = source(
      'import json, os',
      'seen = []',
      'def grade(sample, item):',
      '  before = [len(seen), len(os.listdir("/tmp")), json.dumps is Ellipsis]',
      '  seen.append(1); open("/tmp/left", "w").write("x"); json.dumps = ...',
      '  return 1.0 if before == [0, 0, False] else 0.0',
    )
    expect([await run(text), await run(text)]).toMatchObject([{ score: 1 }, { score: 1 }])
    const limits = graded('\n  resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))', 'import os, resource')
    expect([await run(limits), await run(limits)]).toMatchObject([
      { said: { message: expect.stringMatching(/PermissionError/) } },
      { said: { message: expect.stringMatching(/PermissionError/) } },
    ])
  })

  const RUNTIME = 'python_grader_runtime_error'
  const SERVER = 'python_grader_server_error'
  const LOOPS = 'import os, signal, socket, sys, threading, time, json, struct, subprocess'
  it.each<[string, string, string | null, RegExp]>([
    ['a loop', graded('\n  while True: pass'), SERVER, /within 2 s|killed by/],
    ['a fork bomb', graded('\n  while True: os.fork()', LOOPS), RUNTIME, /Resource temporarily unavailable/],
    ['four gigabytes', graded('return len(bytearray(4 << 30))'), RUNTIME, /MemoryError/],
    ['a socket', graded("socket.create_connection(('127.0.0.1', PORT))", LOOPS), RUNTIME, /unreachable|not permitted/i],
    ['the key of the server', graded("raise ValueError(open('FOLDER/api-key').read())"), RUNTIME, /FileNotFoundError/],
    ['its environment', graded('raise ValueError(str(dict(os.environ)))', LOOPS), RUNTIME, /ValueError/],
    ['other processes', graded("raise ValueError(str(os.listdir('/proc')))", LOOPS), RUNTIME, /FileNotFoundError|\[\]/],
    ['an exit', graded('os._exit(3)', LOOPS), RUNTIME, /without a score \(exit 3\)/],
    ['an exit that is raised', graded('sys.exit(0)', LOOPS), RUNTIME, /SystemExit/],
    [
      'threads',
      graded('\n  while True: threading.Thread(target=time.sleep, args=(99,)).start()', LOOPS),
      RUNTIME,
      /start new thread/,
    ],
    [
      'a huge print',
      graded(
        "\n  for _ in range(2000): print('x' * 100000); sys.stderr.write('y' * 9999)\n  raise ValueError('the end')",
        LOOPS,
      ),
      RUNTIME,
      /^y*Traceback[\s\S]*the end$/,
    ],
    [
      'a signal to its parent',
      graded('\n  for number in (19, 2, 15, 9): os.kill(os.getppid(), number)', LOOPS),
      RUNTIME,
      /not permitted|NoneType/,
    ],
    ['a signal to all', graded('os.kill(-1, 9)', LOOPS), RUNTIME, /No such process|NoneType|not permitted/],
    [
      'patched json',
      graded('return 0.5', `${LOOPS}\njson.loads = json.dumps = struct.pack = os.write = lambda *a, **b: 1 / 0`),
      null,
      /^$/,
    ],
    ['a sleep', graded('time.sleep(999)', LOOPS), SERVER, /no score within 2 s/],
    ['recursion', graded('return grade(sample, item)'), RUNTIME, /RecursionError/],
    ['a text', graded("return '1.0'"), RUNTIME, /grade returned str, expected a number/],
    ['no number', graded("return float('nan')"), RUNTIME, /grade returned nan/],
    ['nothing', graded('pass'), RUNTIME, /grade returned NoneType/],
    ['a missing import', graded('return 1', 'import not_there_at_all'), RUNTIME, /No module named 'not_there_at_all'/],
    ['another program', graded("subprocess.run(['true'])", LOOPS), RUNTIME, /not permitted|unavailable/],
    ['another program in its place', graded("os.execv('/bin/sh', ['sh'])", LOOPS), RUNTIME, /not permitted/],
    ['memory that no limit counts', graded("os.memfd_create('x')", LOOPS), RUNTIME, /not permitted/],
    [
      'a namespace',
      graded(
        'l = ctypes.CDLL(None, use_errno=True); raise ValueError(l.unshare(0x10000000), ctypes.get_errno())',
        'import ctypes',
      ),
      RUNTIME,
      /ValueError: \(-1, 1\)/,
    ],
    ['files of the system', graded("open('/usr/x', 'w')"), RUNTIME, /Read-only|Permission denied/],
    ['a closed result', graded('\n  os.closerange(0, 99)\n  while True: pass', LOOPS), RUNTIME, /without a score/],
    [
      'a forged result',
      graded("os.write(3, b'S' + struct.pack('>d', float('inf'))); os._exit(0)", LOOPS),
      RUNTIME,
      /without a score/,
    ],
    ['half a grader', 'def grade(sample, item)', RUNTIME, /line 1: /],
  ])('%s', async (_, text, flag, words) => {
    const open = createServer().listen(0, '127.0.0.1')
    try {
      await new Promise((resolve) => open.once('listening', resolve))
      const { port } = open.address() as { port: number }
      const filled = text.replace('PORT', String(port)).replace('FOLDER', folder)
      const first = await run(filled)
      expect([first.flag, details(first.said)]).toEqual([flag, expect.stringMatching(words)])
      expect(details(first.said)).not.toContain(SECRET)
      expect(details(first.said).length).toBeLessThanOrEqual(2048)
      // by the same process, which is warm: no interpreter is started
      const second = await run(filled)
      expect(second).toMatchObject({ flag, score: first.score })
      expect(second.seconds).toBeLessThan(SECONDS + 1)
    } finally {
      open.close()
    }
  })

  it('256 kB and a byte are no grader', () => {
    const line = `${graded('return 1')}\n#`
    const python = (bytes: number) => ({ type: 'python', source: line + 'x'.repeat(bytes - line.length) })
    expect(readGrader(python(256 * 1024))).toMatchObject({ type: 'python', name: 'python' })
    expect(() => readGrader(python(256 * 1024 + 1))).toThrow(expect.objectContaining({ param: 'grader.source' }))
  })

  it.each([
    ['x = 1', /there is no function grade/],
    ['def grade(sample): return 1', /called with two arguments/],
    ['def grade(a, b, c): return 1', /called with two arguments/],
    ['async def grade(a, b): return 1', /is async/],
    ['def grade(a, b): return 1 +', /line 1: /],
    ['import nowhere.at_all\ndef grade(a, b): return 1', /imports what .* does not have: nowhere.at_all/],
  ])('%s is refused before it runs', async (text, words) => {
    const check = graders.check(text, { param: 'grader.source' })
    await expect(check).rejects.toMatchObject({
      code: 'invalid_grader',
      param: 'grader.source',
      message: expect.stringMatching(words),
    })
  })

  it.each([
    'def grade(sample, item, bonus=0): return bonus',
    'def grade(*answers): return 1',
    'grade = lambda sample, item: 1',
    'try:\n  import nowhere\nexcept ImportError: pass\ndef grade(a, b): return 1',
    'raise ValueError("never executed by a check")\ndef grade(a, b): return 1',
  ])('%s is none', async (text) => {
    await expect(graders.check(text, { param: 'grader.source' })).resolves.toBeUndefined()
  })

  it.skipIf(process.platform !== 'linux')(
    'leave no process, and nothing in the folder for temporary files',
    async () => {
      const before = readdirSync(tmpdir()).filter((name) => name.startsWith('trainyard-grader-'))
      const own = create({ limits: { seconds: 60 } })
      const ending = new AbortController()
      const asleep = own.grade(graded('time.sleep(999)', 'import time'), NAMESPACES, { signal: ending.signal })
      const awake = await own.grade(graded('return 1'), NAMESPACES, { owner: 'another' })
      expect(awake).toBe(1)
      const running = await until(() => {
        const found = processes()
        return found.length >= 2 && found
      }, 'two graders run')
      ending.abort(new Error('nobody waits any more'))
      await expect(asleep).rejects.toThrow('nobody waits any more')
      await own.stop()
      await graders.stop()
      await until(() => ![...running, ...processes()].some(isGrader), 'no process is left')
      graders = create()
      expect(readdirSync(tmpdir()).filter((name) => name.startsWith('trainyard-grader-'))).toEqual(before)
    },
  )

  it('owners share no process', async () => {
    const text = graded('return os.getppid() + 0 * os.getpid()', 'import os')
    const of = (owner: string) => graders.grade(text, NAMESPACES, { owner })
    expect(await Promise.all([of('a'), of('b')])).toEqual([1, 1])
    // the first process of a namespace is 1; both are: what tells them apart is their own namespace
    const own = graded("return os.stat('/tmp').st_dev", 'import os')
    const devices = [
      await graders.grade(own, NAMESPACES, { owner: 'a' }),
      await graders.grade(own, NAMESPACES, { owner: 'b' }),
    ]
    expect(devices[0]).not.toBe(devices[1])
  })
})

describe.skipIf(wall !== null || process.platform === 'win32')('without walls', () => {
  it('limits hold, and the folder is the grader’s own', async () => {
    const own = create({ walls: 'none' })
    try {
      expect(await run(graded('return len(os.listdir("."))', 'import os'), own)).toMatchObject({ score: 0 })
      expect(await run(graded('\n  while True: os.fork()', 'import os'), own)).toMatchObject({
        flag: 'python_grader_runtime_error',
      })
      expect(await run(graded('return len(bytearray(4 << 30))'), own)).toMatchObject({
        flag: 'python_grader_runtime_error',
      })
      expect(await run(graded('\n  while True: pass'), own)).toMatchObject({ flag: 'python_grader_server_error' })
      const text = graded("raise ValueError(str(os.getuid()) + str(os.environ.get('TRAINYARD_API_KEY')))", 'import os')
      const { said } = await run(text, own)
      expect(details(said)).not.toContain(SECRET)
      expect(details(said)).not.toMatch(/ValueError: 0/)
    } finally {
      await own.stop()
    }
  })

  it('an interpreter that is not there is said', async () => {
    const own = create({ python: join(folder, 'no-python') })
    expect(await run(graded('return 1'), own)).toMatchObject({
      flag: 'python_grader_server_error',
      said: { message: expect.stringMatching(/could not be started/) },
    })
    const local = createLocalPython({ python: join(folder, 'no-python'), environment: process.env })
    await expect(local.check(readGrader({ type: 'python', source: graded('return 1') }))).rejects.toThrow(
      /could not be started/,
    )
    await own.stop()
  })
})

const SYSTEM_PYTHON = '/usr/bin/python3'
const isRoot = process.getuid?.() === 0 && process.platform === 'linux' && existsSync(SYSTEM_PYTHON)
describe.skipIf(wall !== null || !isRoot)('as a plain user', () => {
  it('walls hold as they do for root', async () => {
    const python = join(folder, 'python-of-nobody')
    const drop =
      'import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])'
    writeFileSync(python, `#!/bin/sh\nexec ${SYSTEM_PYTHON} -c '${drop}' ${SYSTEM_PYTHON} "$@"\n`, { mode: 0o755 })
    const own = create({ python })
    try {
      const look = "raise ValueError([os.getuid(), sorted(os.listdir('/')), os.path.exists('/proc/self')])"
      const { flag, said } = await run(graded(look, 'import os'), own)
      expect(flag).toBe('python_grader_runtime_error')
      expect(details(said)).toMatch(/ValueError: \[65534, \['bin', .*'tmp', 'usr'\], False\]/)
      expect(details(said)).not.toContain("'root'")
      expect(await run(graded('\n  while True: os.fork()', 'import os'), own)).toMatchObject({
        flag: 'python_grader_runtime_error',
      })
      const kill = graded('\n  for number in (19, 2, 15, 9): os.kill(os.getppid(), number)\n  return 0.5', 'import os')
      expect([await run(kill, own), await run(kill, own)]).toMatchObject([{ score: 0.5 }, { score: 0.5 }])
    } finally {
      await own.stop()
    }
  })
})
