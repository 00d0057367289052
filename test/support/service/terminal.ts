/**
 * A real terminal for tests, driven through tmux: keys go in, the screen comes out. Tests that need one skip where tmux is absent.
 */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { join, resolve } from 'node:path'

const LAUNCHER = join(resolve(import.meta.dirname, '../../..'), 'bin/trainyard.js')

export const hasTmux: boolean = (() => {
  try {
    execFileSync('tmux', ['-V'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

export interface Terminal {
  /** Types a command line of `trainyard` and Enter; returns what the screen shows once it has ended. */
  run(words: string): RegExp
  /** Types text as it is. */
  type(text: string): void
  /** Presses keys by tmux's names: `Enter`, `C-c`, `Down`. */
  press(...keys: readonly string[]): void
  resize(columns: number): void
  /** What is visible and what scrolled by, without empty lines. */
  screen(): string
  /** Waits until the screen matches, however busy the machine is; then the screen. */
  waitFor(pattern: RegExp): Promise<string>
  close(): void
}

/** Longest wait for a pattern: a bound for what never comes, not a measure. */
const MOST_MS = 120_000

export function openTerminal(options: {
  readonly columns: number
  readonly env: Readonly<Record<string, string>>
}): Terminal {
  const socket = `trainyard-${randomUUID()}`
  const tmux = (...args: readonly string[]): string =>
    execFileSync('tmux', ['-L', socket, '-f', '/dev/null', ...args], { encoding: 'utf8' })
  const path = process.env['PATH'] ?? ''
  // what marks continuous integration, and so keeps prompts away, stays outside
  const env = { PATH: path, TERM: 'screen-256color', LANG: 'C.UTF-8', PS1: '$ ', ...options.env }
  const variables = Object.entries(env).map(([name, value]) => `${name}='${value}'`)
  tmux('new-session', '-d', '-x', String(options.columns), '-y', '40', `env -i ${variables.join(' ')} sh`)

  let count = 0
  const screen = (): string =>
    tmux('capture-pane', '-p', '-S', '-200')
      .split('\n')
      .filter((line) => line.trim() !== '')
      .join('\n')

  return {
    run: (words) => {
      count += 1
      tmux('send-keys', '-l', `${process.execPath} ${LAUNCHER} ${words}; echo "exit $? of ${count}"`)
      tmux('send-keys', 'Enter')
      return new RegExp(`exit \\d+ of ${count}`)
    },
    type: (text) => void tmux('send-keys', '-l', text),
    press: (...keys) => void tmux('send-keys', ...keys),
    resize: (columns) => void tmux('resize-window', '-x', String(columns), '-y', '40'),
    screen,
    async waitFor(pattern) {
      const deadline = Date.now() + MOST_MS
      for (;;) {
        const text = screen()
        if (pattern.test(text)) return text
        if (Date.now() > deadline) throw new Error(`the terminal never showed ${pattern}:\n${text}`)
        await new Promise((done) => setTimeout(done, 50))
      }
    },
    close: () => void tmux('kill-server'),
  }
}
