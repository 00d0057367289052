/**
 * A demo on the terminal: a line per step, then a chart, samples before and after, and what to do next.
 *
 * Turns the events of `events.ts` into text; `--json` prints them as they are, `--quiet` only the model's id.
 */

import type { CommandContext } from '#cli/command/context.js'
import { renderChart } from '#cli/terminal/chart.js'
import { formatClock, formatDuration, formatNumber, plural } from '#cli/terminal/format.js'
import { type Progress, startProgress } from '#cli/terminal/progress.js'
import { wrapWords } from '#cli/terminal/table.js'
import type { DemoEvent, DemoFinished, DemoKind, DemoSample, DemoStarted, DemoStep } from './events.js'

/** What the reader can do when it is over. */
export interface NextSteps {
  /** Starts the server that this run stopped; null when it still runs. */
  readonly startCommand: string | null
  /** Exactly three commands to go on with. */
  readonly commands: readonly string[]
}

export interface DemoPrinter {
  print(event: DemoEvent): void
  /** Clears what is only there while something runs. */
  stop(): void
}

/** Creates the printer of one run. */
export function createDemoPrinter(context: CommandContext, next: NextSteps): DemoPrinter {
  const { io, output } = context
  let spinner: Progress | null = null

  /** The spinner and the lines share a terminal: it goes before a line is written, and comes back after. */
  function say(event: DemoEvent, line: string | null, doing: string | null): void {
    spinner?.stop()
    output.event(event, line)
    spinner = doing === null ? null : startProgress(io, output.mode === 'human', doing)
  }

  return {
    stop: () => spinner?.stop(),
    print(event) {
      switch (event.object) {
        case 'demo.started':
          return say(event, introduction(event), 'asking the held-out prompts')
        case 'demo.measured':
          return say(event, measuredLine(event.step, event.held_out_reward, event.seconds), 'sampling answers')
        case 'demo.gradient_step':
          if (output.mode === 'json') return say(event, null, null)
          return spinner?.update(`training, gradient step ${event.gradient_step}`)
        case 'demo.step':
          return say(event, stepLine(event), 'sampling answers')
        case 'demo.finished':
          spinner?.stop()
          return printFinished(context, event, next)
      }
    },
  }
}

const WORDS: Readonly<Record<DemoKind, { readonly way: string; readonly rows: string }>> = {
  rl: { way: 'reinforcement learning', rows: 'prompts to learn from' },
  sft: { way: 'fine-tuning', rows: 'example conversations' },
}

function introduction(event: DemoStarted): string {
  const { way, rows } = WORDS[event.kind]
  return [
    `Task ${event.task}: teach ${event.model} (from ${event.base_model}) to ${event.teaches}, by ${way}`,
    `Reward: ${event.rule}`,
    `${event.training_prompts} ${rows}; the held-out reward is measured on ${event.held_out_prompts} other prompts`,
    '',
    formatRow(['step', 'reward', 'held out', 'loss', 'KL', 'entropy', 'groups', 'tokens', 'time']),
  ].join('\n')
}

function measuredLine(step: number, reward: number, seconds: number): string {
  return formatRow([String(step), '-', reward.toFixed(3), '-', '-', '-', '-', '-', formatClock(seconds * 1000)])
}

function stepLine(event: DemoStep): string {
  const show = (value: number | null) => (value === null ? '-' : formatNumber(value))
  return formatRow([
    String(event.step),
    event.reward?.toFixed(3) ?? '-',
    event.held_out_reward?.toFixed(3) ?? '-',
    show(event.loss),
    show(event.kl),
    show(event.entropy),
    `${event.trained_groups}/${event.groups}`,
    event.tokens.toLocaleString('en-US'),
    formatClock(event.seconds * 1000),
  ])
}

function formatRow(cells: readonly string[]): string {
  const widths = [6, 8, 10, 11, 11, 9, 8, 8, 6]
  return `  ${cells.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join('')}`.trimEnd()
}

function printFinished({ io, output }: CommandContext, event: DemoFinished, next: NextSteps): void {
  if (output.mode === 'json') {
    output.event({ ...event, start_command: next.startCommand, next: next.commands }, null)
    return
  }
  if (output.mode === 'human') {
    const points = event.held_out.map(({ step, reward }) => ({ step, value: reward }))
    const chart = renderChart(points, { width: io.stdout.width, isUnicode: io.stdout.isUnicode })
    output.event(event, `\nHeld-out reward by step\n${chart}\n`)
    const width = io.stdout.isTerminal ? io.stdout.width : Number.POSITIVE_INFINITY
    output.event(event, event.samples.map((sample) => describeSample(sample, width)).join('\n\n'))
  }
  output.result(event, `\n${outcome(event)}\n\n${nextLines(next).join('\n')}`, [event.model_id])
}

/** Before and after one above the other, with their rewards; what is long goes on below, nothing is cut. */
function describeSample({ prompt, before, after, ...sample }: DemoSample, width: number): string {
  const line = (label: string, text: string, reward: number | null): string => {
    const value = reward === null ? '    ' : reward.toFixed(2)
    const indent = `  ${label.padEnd(6)}  ${value}  `
    const words = text.trim().replaceAll(/\s*\n\s*/g, ' ⏎ ')
    return `${indent}${wrapWords(words === '' ? '(nothing)' : words, width - indent.length).join(`\n${' '.repeat(indent.length)}`)}`
  }
  return [
    line('asked', prompt, null),
    line('before', before, sample.reward_before),
    line('after', after, sample.reward_after),
  ].join('\n')
}

const reasons: Readonly<Record<DemoFinished['reason'], string>> = {
  goal: 'little is left to learn',
  steps: 'all steps done',
  time: 'the time is used up',
  nothing_to_learn: 'all answers to a prompt earn the same, so there is nothing to learn from',
}

function outcome(event: DemoFinished): string {
  const sign = event.gain < 0 ? '-' : '+'
  const change = `${event.before.toFixed(2)} to ${event.after.toFixed(2)} (${sign}${Math.abs(event.gain).toFixed(2)})`
  return `Held-out reward ${change} after ${plural(event.step, 'step')} and ${formatDuration(event.seconds * 1000)}: ${reasons[event.reason]}`
}

function nextLines({ startCommand, commands }: NextSteps): readonly string[] {
  const start =
    startCommand === null
      ? []
      : ['The server of this demo is stopped, its data stay. Start it again with', `  ${startCommand}`]
  return [...start, 'Go on with', ...commands.map((command) => `  ${command}`)]
}
