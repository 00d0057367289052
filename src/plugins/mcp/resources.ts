/**
 * Resources: what was published of a model and of a job, and the pages of the handbook.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join, parse } from 'node:path'
import { packageRoot } from '#base/util/package-root.js'
import { bounded, MOST_BYTES } from './bounded.js'
import { askFor, type ToolCall, ToolError } from './tool.js'

const SHELVES = ['start', 'guides', 'reference'] as const
const GUIDE = /^trainyard:\/\/guide\/([\w-]+)$/
const MODEL = /^trainyard:\/\/models\/([^/]+)\/history$/
const JOB = /^trainyard:\/\/jobs\/([^/]+)\/report$/

export const RESOURCE_TEMPLATES = [
  {
    uriTemplate: 'trainyard://models/{model_id}/history',
    name: 'History of a model',
    description: 'Its curves by step',
    mimeType: 'application/json',
  },
  {
    uriTemplate: 'trainyard://jobs/{training_job_id}/report',
    name: 'Report of a job',
    description: 'State, numbers and warnings',
    mimeType: 'application/json',
  },
]

/** Pages of the handbook, as they come with the package. */
export async function listPages() {
  const pages = await Promise.all(
    SHELVES.map(async (shelf) => (await readdir(docs(shelf))).filter((file) => /[.]md$/.test(file)).sort()),
  )
  return pages.flat().map((file) => ({
    uri: `trainyard://guide/${parse(file).name}`,
    name: parse(file).name,
    mimeType: 'text/markdown',
  }))
}

/** @throws {ToolError} `resource_not_found`, or what the service says */
export async function readResource(
  uri: string,
  call: ToolCall,
): Promise<{ readonly mimeType: string; readonly text: string }> {
  const [, page] = GUIDE.exec(uri) ?? []
  if (page !== undefined) return { mimeType: 'text/markdown', text: await readPage(page) }
  const [, model] = MODEL.exec(uri) ?? []
  const [, job] = JOB.exec(uri) ?? []
  if (model !== undefined)
    return json(call, `/v1/preview/models/${model}/metrics`, 'ask model_history with fewer points')
  if (job !== undefined) return json(call, `/v1/preview/training-jobs/${job}`, 'ask get_job')
  throw new ToolError(`there is no resource ${uri.slice(0, 200)}`, 'resource_not_found', 'resources/list names them')
}

async function json(call: ToolCall, path: string, hint: string) {
  return { mimeType: 'application/json', text: bounded(await askFor(call, 'GET', path), hint) }
}

const docs = (...parts: string[]): string => join(packageRoot(), 'src', 'docs', ...parts)

/** The name was found in a folder's list before: a request's own never becomes a path. */
async function readPage(name: string): Promise<string> {
  for (const shelf of SHELVES) {
    if (!(await readdir(docs(shelf))).includes(`${name}.md`)) continue
    const text = await readFile(docs(shelf, `${name}.md`), 'utf8')
    return Buffer.byteLength(text) <= MOST_BYTES ? text : cutPage(text, name)
  }
  throw new ToolError(`there is no page ${name.slice(0, 100)}`, 'resource_not_found', 'resources/list names them')
}

function cutPage(text: string, name: string): string {
  const shown = text.slice(0, Math.floor(MOST_BYTES / 2))
  return `${shown}\n\n(${text.length - shown.length} of ${text.length} characters left out: the page is at /docs/${name} of the service)`
}
