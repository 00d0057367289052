// An agent: asks the model at the address that its variables name, in the dialect of its second argument, and writes the answer down.
import { readFileSync, writeFileSync } from 'node:fs'

const [prompt, dialect = 'chat'] = process.argv.slice(2)
const { OPENAI_BASE_URL: openai, ANTHROPIC_BASE_URL: anthropic, TRAINYARD_TASK: task = '' } = process.env
if (prompt === 'hang') await new Promise((done) => setTimeout(done, 600_000))
if (prompt === 'fail') {
  console.error('it broke')
  process.exit(3)
}
if (prompt !== 'idle') {
  const url = dialect === 'chat' ? `${openai}/chat/completions` : `${anthropic}/v1/messages`
  const messages = [{ role: 'user', content: prompt }]
  for (let turn = 0; turn < 2; turn++) {
    const body = JSON.stringify({ model: 'any', messages, max_tokens: 20 })
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const answer = await response.json()
    if (!response.ok) throw new Error(JSON.stringify(answer))
    const said = dialect === 'chat' ? answer.choices[0].message.content : answer.content[0].text
    messages.push({ role: 'assistant', content: said }, { role: 'user', content: 'go on' })
  }
  writeFileSync('answer.txt', JSON.parse(readFileSync(task, 'utf8')).prompt)
  console.log(`HOME=${process.env.HOME} SECRET=${process.env.SECRET}`)
}
