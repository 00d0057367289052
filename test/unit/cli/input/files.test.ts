/** Trajectory and conversation files: the three accepted forms, and problems with file, line and path. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, describe, expect, test } from 'vitest'
import { checkConversations } from '../../../../src/cli/input/conversation-file.js'
import { readTrajectoryFile } from '../../../../src/cli/input/trajectory-file.js'
import { createIo } from '../../../../src/cli/terminal/io.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
const sink = { isTTY: false, write: () => true }

function ioWith(text: string) {
  return createIo({ stdin: Readable.from([Buffer.from(text)]), stdout: sink, stderr: sink }, false, {})
}
function group(...rewards: number[]) {
  const messages_and_choices = [
    { role: 'user', content: 'q' },
    { finish_reason: 'stop', index: 0, message: { role: 'assistant', content: 'a' } },
  ]
  return { trajectories: rewards.map((reward) => ({ messages_and_choices, reward })) }
}

describe('trajectory files', () => {
  const groups = [group(0, 1), group(1, 1)]
  test.each([
    ['JSON Lines', groups.map((each) => JSON.stringify(each)).join('\r\n')],
    ['an array', JSON.stringify(groups, null, 2)],
    ['an object', JSON.stringify({ trajectory_groups: groups })],
    ['a byte order mark and blank lines', `\ufeff\n${groups.map((each) => JSON.stringify(each)).join('\n\n')}\n`],
  ])('%s', async (_name, text) => {
    const file = await readTrajectoryFile('-', ioWith(text))
    expect(file).toMatchObject({ trajectoryCount: 4, trainableGroupCount: 1, meanReward: 0.75 })
    expect(file.groups).toHaveLength(2)
  })
  test('problems are named as file:line: path, the first ten and how many more', async () => {
    const path = join(folder, 'groups.jsonl')
    const bad = { trajectories: [{ messages_and_choices: [{ role: 'user', content: 'q' }], reward: 'high' }] }
    writeFileSync(path, [JSON.stringify(group(1, 2)), ...Array(12).fill(JSON.stringify(bad))].join('\n'))
    const error = await readTrajectoryFile(path, ioWith('')).catch((thrown: Error) => thrown)
    const lines = (error as Error).message.split('\n')
    expect(lines[0]).toBe(`${path}:2: trajectories[0].reward: must be a finite number, got "high"`)
    expect(lines).toHaveLength(11)
    expect(lines.at(-1)).toBe('  and 2 more')
  })
  test.each([
    ['', 'holds no trajectory group'],
    ['{"trajectories":[]}', 'trajectories: must hold at least one trajectory'],
    ['{"trajectories":[{"messages_and_choices":[],"reward":1}]}', 'messages_and_choices: must not be empty'],
    ['{"trajectories":[{"messages_and_choices":[{}],"reward":1}]}', 'messages_and_choices[0]: must be a message'],
    ['{"trajectories":{}}', 'trajectories: must be an array, got {}'],
    ['[1]', '[0]: must be a group object, got 1'],
    ['{"trajectories":[', 'standard input:1: not valid JSON'],
  ])('%j is refused', async (text, message) => {
    await expect(readTrajectoryFile('-', ioWith(text))).rejects.toThrow(message)
  })
  test('a missing file and a folder are named', async () => {
    await expect(readTrajectoryFile(join(folder, 'none'), ioWith(''))).rejects.toThrow('does not exist')
    await expect(readTrajectoryFile(folder, ioWith(''))).rejects.toThrow('is a folder')
  })
})

describe('conversation files', () => {
  const row = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}'
  test('rows and assistant turns are counted; blank lines, CRLF and a byte order mark are fine', async () => {
    expect(await checkConversations(new Blob([`\ufeff${row}\r\n\r\n${row}`]), 'f')).toEqual({
      rowCount: 2,
      assistantTurnCount: 2,
    })
  })
  test.each([
    [`${row}\n{"messages":[`, 'f:2: not valid JSON'],
    ['{"messages":[]}', 'f:1: messages: must be an array that is not empty'],
    ['{"messages":[{"content":"x"}]}', 'f:1: messages[0].role'],
    ['{"messages":[{"role":"user","content":"x"}]}', 'assistant message to learn from'],
    ['\n\n', 'f holds no conversation'],
  ])('%j is refused', async (text, message) => {
    await expect(checkConversations(new Blob([text]), 'f')).rejects.toThrow(message)
  })
})
