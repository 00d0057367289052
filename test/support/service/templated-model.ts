/**
 * A tiny random model with a chat template of one's own, as a directory to serve. Its tokens are bytes.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeRandomModel } from '#model/built-in/tiny-random.js'

/** @param template Jinja, in place of the model's own */
export async function templatedModel(folder: string, name: string, template: string) {
  const sourcePath = await writeRandomModel(join(folder, name), {})
  const file = join(sourcePath, 'tokenizer_config.json')
  const config = JSON.parse(await readFile(file, 'utf8')) as object
  await writeFile(file, JSON.stringify({ ...config, chat_template: template }))
  return { name, sourcePath }
}
