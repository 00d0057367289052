/**
 * `trainyard check openai`: what of files for OpenAI's fine-tuning runs here.
 */
import { createReadStream } from 'node:fs'
import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { UsageError } from '#cli/terminal/errors.js'
import { type Finding, findInFile } from '../check/findings.js'

export const checkOpenAiCommand = defineCommand({
  path: ['check', 'openai'],
  summary: 'Say what of files for OpenAI’s fine-tuning runs here',
  details:
    'Reads jobs, graders and requests to run them (JSON), rows and requests of batches (JSON Lines), without a server, and says of each kind on which lines it runs, differs or is refused. The exit code is 1 where something is refused.',
  examples: [
    ['trainyard check openai job.json rows.jsonl', 'before the first request is sent'],
    ['trainyard check openai grader.json --json', 'what is said of each file, for a program'],
  ],
  args: { files: argument.many('files') },
  flags: {},
  next: ['trainyard serve', 'trainyard train sft <model> <file>'],
  async run({ args, output }) {
    const files: { readonly file: string; readonly findings: readonly Finding[] }[] = []
    for (const file of args.files) files.push({ file, findings: await findIn(file) })
    const lines = files.flatMap(({ file, findings }) => findings.map((finding) => sayFinding(file, finding)))
    output.result({ object: 'check', files }, lines.join('\n'), lines)
    const refused = files.flatMap(({ findings }) => findings.filter(({ verdict }) => verdict === 'refused'))
    if (refused.length === 0) return
    const count = refused.reduce((sum, finding) => sum + finding.count, 0)
    throw new AppError(
      'invalid_request',
      'openai_refused',
      `${count} ${count === 1 ? 'thing is' : 'things are'} refused`,
      {
        hint: 'the page "Moving from OpenAI" (/docs/moving-from-openai) says what takes its place',
      },
    )
  },
})

async function findIn(file: string): Promise<readonly Finding[]> {
  try {
    const findings = await findInFile(createReadStream(file))
    return findings.length > 0
      ? findings
      : [{ verdict: 'refused', sentence: 'the file is empty', lines: [1], count: 1 }]
  } catch (error) {
    const { code } = error as { readonly code?: string }
    if (code !== 'ENOENT' && code !== 'EISDIR' && code !== 'EACCES') throw error
    throw new UsageError('file_not_readable', `${file} cannot be read: ${code}`, { param: 'files' })
  }
}

function sayFinding(file: string, { verdict, sentence, lines, count }: Finding): string {
  const more = count > lines.length ? ` and ${count - lines.length} more` : ''
  return `${file}: ${verdict}: ${sentence} (line${count === 1 ? '' : 's'} ${lines.join(', ')}${more})`
}
