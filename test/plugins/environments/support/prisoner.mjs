/** Tries all that the walls of `--isolate` shall not let through, says what came of it, and asks the model where it may. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'

const { TRIES, HOST_PORT, SERVER, KEY_FILE, DATA, PARENT, OPENAI_BASE_URL, OPENAI_API_KEY, TRAINYARD_MODEL } =
  process.env
const tried = async (work) => {
  try {
    return `did: ${String(await work()).slice(0, 200)}`
  } catch (error) {
    return `failed: ${error.code ?? error.message.slice(0, 200)}`
  }
}
const reach = (port, host) =>
  new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host, timeout: 3000 }, () => resolve(socket.destroy().remotePort))
    socket.on('error', reject).on('timeout', () => reject(Object.assign(new Error('late'), { code: 'ETIMEDOUT' })))
  })
const commandOf = (pid) => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    // it has ended meanwhile
    return ''
  }
}
const status = async (url) => {
  const response = await fetch(url, { headers: { authorization: `Bearer ${OPENAI_API_KEY}` } })
  if (response.ok) return response.status
  throw new Error(`${response.status}`)
}
const inside = new URL(OPENAI_BASE_URL)
const tries = {
  host: () => reach(HOST_PORT, '127.0.0.1'),
  world: () => reach(53, '192.0.2.1'),
  server: () => status(`${SERVER}/health`),
  api: () => status(new URL('/v1/models', inside)),
  climbing: () => status(`${inside.origin}/r/%2e%2e/v1/models`),
  key: () => readFileSync(KEY_FILE, 'utf8'),
  unmounting: () => execFileSync('umount', [DATA], { stdio: 'pipe' }),
  unmountingBelow: () => execFileSync('unshare', ['-rm', 'umount', DATA], { stdio: 'pipe' }),
  killing: () => process.kill(Number(PARENT), 'SIGTERM'),
  spying: () => {
    const seen = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    const found = seen.filter((pid) => commandOf(pid).includes('vitest'))
    if (found.length > 0) return found
    throw Object.assign(new Error('none'), { code: `${seen.length} processes` })
  },
  link: () => execFileSync('ip', ['link', 'add', 'x', 'type', 'dummy'], { stdio: 'pipe' }),
  file: () => writeFileSync('answer.txt', 'here'),
}
const said = {}
for (const name of TRIES.split(' ')) said[name] = await tried(tries[name])
const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${OPENAI_API_KEY}` },
  body: JSON.stringify({ model: TRAINYARD_MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 }),
})
said.asking = `${response.status}`
process.stdout.write(JSON.stringify(said))
