/**
 * `trainyard skills add`: the folder that teaches an agent the loop, written where agents look for skills.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { ConflictError } from '#base/errors/errors.js'
import { packageRoot } from '#base/util/package-root.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'

const FILE = 'SKILL.md'

export const addSkill = defineCommand({
  path: ['skills', 'add'],
  summary: 'Write into a project what teaches an agent to train with this',
  details: 'A folder `trainyard` with SKILL.md: measure, examples, rewards, compare, and the traps on the way.',
  examples: [
    ['trainyard skills add', 'below .agents/skills of this folder'],
    ['trainyard skills add ./agent/skills', 'where another agent looks'],
  ],
  args: { folder: argument.optional('folder of skills; default .agents/skills') },
  flags: { force: flag.switch('--force', 'write over a file that was changed') },
  exits: ['conflict'],
  next: ['trainyard mcp'],
  async run({ args, flags, output }) {
    const folder = join(resolve(args.folder ?? join('.agents', 'skills')), 'trainyard')
    const path = join(folder, FILE)
    const text = await readFile(join(packageRoot(), 'src', 'plugins', 'mcp', FILE), 'utf8')
    const before = await readFile(path, 'utf8').catch(() => null)
    if (before !== null && before !== text && !flags.force) {
      throw new ConflictError('file_exists', `${path} is there and says something else`, {
        hint: 'give --force to write over it, or another folder',
      })
    }
    await mkdir(folder, { recursive: true })
    await writeFile(path, text)
    output.result({ path }, `wrote ${path}`, [path])
  },
})
