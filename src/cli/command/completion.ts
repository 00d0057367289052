/**
 * Completion scripts from the table of commands: nouns, verbs and flags are static, so that no key press waits for anything; names of
 * models and jobs are asked of the service, which has a moment to answer (`trainyard __complete`).
 */
import { settings } from '../config/schema.js'
import type { CompletedKind } from '../names/complete-names.js'
import { globalSettings } from './command-line.js'
import type { Command } from './define-command.js'
import { longName } from './flags.js'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** The script, ready to be sourced. */
export function completionScript(shell: Shell, commands: readonly Command[]): string {
  const words = tree(commands)
  switch (shell) {
    case 'bash':
      return bashScript(words, commands)
    case 'zsh':
      return `#compdef trainyard\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(words, commands)}`
    case 'fish':
      return fishScript(commands)
  }
}

/** What may follow: after nothing, after a noun, after a whole command. */
function tree(commands: readonly Command[]): ReadonlyMap<string, readonly string[]> {
  const words = new Map<string, string[]>()
  const add = (after: string, word: string) => {
    const known = words.get(after) ?? []
    if (!known.includes(word)) words.set(after, [...known, word])
  }
  for (const command of commands) {
    const [noun = '', verb] = command.path
    add('', noun)
    if (verb !== undefined) add(noun, verb)
    for (const flag of flagsOf(command)) add(command.path.join(' '), flag)
  }
  return words
}

function flagsOf(command: Command): readonly string[] {
  const own = Object.values(command.flags).flatMap(({ spelling }) =>
    spelling.includes('[no-]')
      ? [longName(spelling.replace('[no-]', '')), longName(spelling.replace('[no-]', 'no-'))]
      : [longName(spelling)],
  )
  const global = globalSettings.map((key) => longName(settings[key].flag ?? ''))
  return [...own, ...global, '--quiet', '--help'].filter((flag) => flag.startsWith('--'))
}

/** What the first argument of a command names on the service; null: nothing there. */
function namedBy(command: Command): CompletedKind | null {
  const [first] = Object.entries(command.args)
  if (first === undefined) return null
  const [name, { asks }] = first
  if (name === 'job') return 'job'
  return name === 'model' ? (asks === 'served' ? 'served' : 'model') : null
}

function bashScript(words: ReadonlyMap<string, readonly string[]>, commands: readonly Command[]): string {
  const named = commands.flatMap((command) => {
    const kind = namedBy(command)
    return kind === null ? [] : [`    '${command.path.join(' ')}') kind=${kind} ;;`]
  })
  const cases = [...words].map(
    ([after, next]) => `    ${after === '' ? "''" : `'${after}'`}) words='${next.join(' ')}' ;;`,
  )
  return `_trainyard() {
  local word path='' words='' kind='' name current="\${COMP_WORDS[COMP_CWORD]}"
  local count=0 i
  for ((i = 1; i < COMP_CWORD && count < 2; i++)); do
    word="\${COMP_WORDS[i]}"
    [[ $word == -* ]] && break
    path="\${path:+$path }$word"
    count=$((count + 1))
  done
  case "$path" in
${cases.join('\n')}
    *) case "\${path%% *}" in
${[...words]
  .filter(([after]) => after !== '' && !after.includes(' '))
  .map(([after, next]) => `      '${after}') words='${next.filter((word) => word.startsWith('--')).join(' ')}' ;;`)
  .join('\n')}
      esac ;;
  esac
  case "$path" in
${named.join('\n')}
  esac
  if [[ -n $kind && $count -eq $((COMP_CWORD - 1)) && $current != -* ]]; then
    COMPREPLY=()
    while read -r name; do
      [[ $name == "$current"* ]] && COMPREPLY+=("$name")
    done < <("\${COMP_WORDS[0]}" __complete "$kind" 2> /dev/null)
    [[ \${#COMPREPLY[@]} -gt 0 ]] && return
  fi
  if [[ -z $words ]]; then COMPREPLY=($(compgen -f -- "$current")); else COMPREPLY=($(compgen -W "$words" -- "$current")); fi
}
complete -o default -F _trainyard trainyard
`
}

function fishScript(commands: readonly Command[]): string {
  const lines = ['complete -c trainyard -f']
  for (const command of commands) {
    const [noun = '', verb] = command.path
    const nouns = `not __fish_seen_subcommand_from ${[...new Set(commands.map(({ path }) => path[0]))].join(' ')}`
    const hasVerb = verb !== undefined
    if (!lines.some((line) => line.includes(` -a '${noun}'`))) {
      lines.push(`complete -c trainyard -n '${nouns}' -a '${noun}'${hasVerb ? '' : ` -d ${quote(command.summary)}`}`)
    }
    if (hasVerb) {
      lines.push(
        `complete -c trainyard -n '__fish_seen_subcommand_from ${noun}' -a '${verb}' -d ${quote(command.summary)}`,
      )
    }
    const seen = command.path.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ')
    const kind = namedBy(command)
    if (kind !== null) lines.push(`complete -c trainyard -n '${seen}' -a '(trainyard __complete ${kind} 2>/dev/null)'`)
    for (const flag of flagsOf(command)) lines.push(`complete -c trainyard -n '${seen}' -l ${flag.slice(2)}`)
  }
  return `${lines.join('\n')}\n`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "\\'")}'`
}
