/**
 * The first process behind the walls of `--isolate` (`walls.ts`): in namespaces of its own it hides folders, opens the door to
 * the server, and starts the command in a user namespace below, which can take none of that back.
 *
 * Argument: JSON `{hidden, kept, door, command}`; `door` is `{socket, port}` or null, `command` a list of words.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmdirSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const { hidden, kept, door, command } = JSON.parse(process.argv[2])

function run(name, ...words) {
  const { status, error, stderr } = spawnSync(name, words, { encoding: 'utf8' })
  if (status === 0) return
  process.stderr.write(`${name} ${words.join(' ')}: ${error?.message ?? stderr}\n`)
  process.exit(125)
}

const stashed = kept
  .filter((folder) => existsSync(folder))
  .map((folder) => [folder, mkdtempSync(join(tmpdir(), 'kept-'))])
for (const [folder, stash] of stashed) run('mount', '--bind', folder, stash)
for (const folder of hidden) if (existsSync(folder)) run('mount', '-t', 'tmpfs', '-o', 'size=64k', 'none', folder)
for (const [folder, stash] of stashed) {
  mkdirSync(folder, { recursive: true })
  run('mount', '--move', stash, folder)
  rmdirSync(stash)
}
run('ip', 'link', 'set', 'lo', 'up')
if (door !== null) {
  const server = createServer((client) => {
    const outside = connect(door.socket)
    const end = () => {
      client.destroy()
      outside.destroy()
    }
    client.on('error', end).pipe(outside).on('error', end).pipe(client)
  })
  await new Promise((resolve) => server.listen(door.port, '127.0.0.1', resolve))
}
const child = spawn('unshare', ['--user', '--map-root-user', '--', ...command], { stdio: 'inherit' })
child.once('error', (error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(125)
})
// all that is left behind the walls ends with this process
child.once('close', (code, signal) => process.exit(code ?? (signal === null ? 1 : 137)))
