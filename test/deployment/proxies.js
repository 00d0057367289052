/**
 * nginx and Caddy with TLS and a prefix, started with the lines that `src/docs/reference/operations.md` gives, in front of a server of a test.
 * Only addresses, certificate and places of files differ from what is documented. Knows nothing of what is asked through them.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const ROOT = path.resolve(import.meta.dirname, '../..')
const TLS = path.join(ROOT, 'test/fixtures/tls')

export const PROXIES = ['nginx', 'caddy']

/** Whether the program is installed. */
export function hasProxy(name) {
  return spawnSync(name, [name === 'nginx' ? '-v' : 'version'], { stdio: 'ignore' }).status === 0
}

/**
 * Resolves when it answers for the server behind it.
 *
 * @param {{ name: string, port: number, serviceUrl: string, folder: string, takesPrefixOff?: boolean, change?: (text: string) => string }} options
 *   `folder` takes its files, `change` may alter the configuration further
 * @returns its process
 */
export async function startProxy({ name, port, serviceUrl, folder, takesPrefixOff = true, change = (text) => text }) {
  const documented = documentedLines(name)
  const isNginx = name === 'nginx'
  const text = change(isNginx ? forNginx() : forCaddy())
  mkdirSync(folder, { recursive: true })
  const config = path.join(folder, isNginx ? 'nginx.conf' : 'Caddyfile')
  writeFileSync(config, text)
  const args = isNginx
    ? ['-e', path.join(folder, 'error.log'), '-p', folder, '-c', config]
    : ['run', '--adapter', 'caddyfile', '--config', config]
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  const child = spawn(name, args, { stdio: ['ignore', 'ignore', 'pipe'], env })
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors = (errors + chunk).slice(-3000)
  })
  for (let tries = 0; ; tries += 1) {
    const answer = await fetch(`https://localhost:${port}/trainyard/v1/health`).catch((error) => error)
    if (answer.status === 200) return child
    if (child.exitCode !== null || tries > 1000) {
      child.kill('SIGKILL')
      throw new Error(`${name} does not answer: ${answer.cause ?? answer.status}\n${errors}`)
    }
    await sleep(50)
  }

  function forNginx() {
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${folder}/${of};`)
    return `daemon off; master_process off; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
events {} http { access_log off; ${places.join(' ')}
${documented
  .replace('listen 443', `listen 127.0.0.1:${port}`)
  .replace('train.example;', 'localhost;')
  .replace('/etc/ssl/train.example.pem', path.join(TLS, 'certificate.pem'))
  .replace('/etc/ssl/train.example.key', path.join(TLS, 'key.pem'))
  .replace('http://127.0.0.1:8642/', `${serviceUrl}${takesPrefixOff ? '/' : ''}`)}
}`
  }

  function forCaddy() {
    const own = `bind 127.0.0.1\n  tls ${path.join(TLS, 'certificate.pem')} ${path.join(TLS, 'key.pem')}`
    return `{
  admin off
  auto_https disable_redirects
}
${documented
  .replace('train.example {', `https://localhost:${port} {\n  ${own}`)
  .replace('127.0.0.1:8642', new URL(serviceUrl).host)
  .replace('handle_path', takesPrefixOff ? 'handle_path' : 'handle')}`
  }
}

function documentedLines(name) {
  const text = readFileSync(path.join(ROOT, 'src/docs/reference/operations.md'), 'utf8')
  const lines = new RegExp(`\`\`\`${name}\\n([\\s\\S]+?)\`\`\``).exec(text)?.[1]
  if (lines === undefined) throw new Error(`the documentation has no lines for ${name}`)
  return lines
}
