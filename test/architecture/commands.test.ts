/**
 * Commands that are made of data are made by `command` (`src/contract/wire/command-words.ts`): a value in one is a word, whatever a model is
 * named. A sentence that holds a command puts it in as a whole.
 */
import ts from 'typescript'
import { expect, test } from 'vitest'
import { readSourceTree } from './source-tree.js'

/** Templates that name a command and are no command to copy, or whose values are no data; as they begin, and why. */
const OTHERS: Readonly<Record<string, string>> = {
  'src/cli/command/completion.ts: `complete -c trainyard': 'lines for fish, of the table of commands',
  'src/plugins/init/files.ts: `# ${describe(task)} Run it: sh task.sh':
    'a script, whose name and base model are quoted at its top',
  'src/plugins/init/files.ts: `${examples}trainyard train sft ${name}': 'part of that script',
  'src/plugins/init/files.ts: `trainyard base-models list --quiet': 'part of that script',
  'src/plugins/init/files.ts: `trainyard eval ${name} --prompts held-out.jsonl': 'part of that script',
  'src/plugins/export/import-adapter.ts: `merge it exactly':
    'a pattern with places to fill in, beside the name of a base model of the operator',
  'src/plugins/init/files.ts: `- \\`./data\\`': 'a line of that page',
  'src/plugins/init/files.ts: `- ${task.baseModel.server}': 'a line of that page',
  'src/plugins/init/files.ts: `# ${task.name}': 'a page about a task, whose name is of letters, digits and hyphens',
}

test('no command is made of data but by `command`', () => {
  const found: string[] = []
  for (const { path: file, text } of readSourceTree()) {
    if (!/trainyard [a-z]/.test(text)) continue
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
    const visit = (node: ts.Node): void => {
      if (ts.isTemplateExpression(node) && !ts.isTaggedTemplateExpression(node.parent) && holdsCommand(node)) {
        const place = `${file}: ${node.getText()}`
        if (!Object.keys(OTHERS).some((known) => place.startsWith(known))) found.push(place)
      }
      ts.forEachChild(node, visit)
    }
    visit(source)
  }
  expect(found).toEqual([])
})

/** Whether a value follows a command's words on their line. */
function holdsCommand({ head, templateSpans }: ts.TemplateExpression): boolean {
  const before = [head, ...templateSpans.map(({ literal }) => literal)].slice(0, -1)
  const line = before.map(({ text }) => text).join('\0')
  return /trainyard [a-z-]+( [^\n`.;]*)?\0/.test(`${line}\0`)
}
