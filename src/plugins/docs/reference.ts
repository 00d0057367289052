/**
 * The reference of the API as HTML, from the same table as `/openapi.json`: one section a route.
 */
import type { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import type { EndpointTable, Route } from '#contract/endpoints/table.js'
import { described, statusesOf, toSchema } from './openapi.js'
import { anchorOf, escapeHtml } from './page.js'

/** Deepest level of fields that is shown; below it the name of the type stands. */
const MAX_DEPTH = 3

export function renderReference({ apiRoutes, sections: names }: EndpointTable): string {
  const contents = names.map((tag) => `<li><a href="#${anchorOf(tag)}">${escapeHtml(tag)}</a></li>`)
  const sections = names.map((tag) => {
    const routes = apiRoutes.filter((route) => route.tag === tag)
    return `<h2 id="${anchorOf(tag)}">${escapeHtml(tag)}</h2>\n${routes.map(renderRoute).join('\n')}`
  })
  return `<h1>API reference</h1>
<p>Every route with its fields, made from the schemas that requests are checked with; <a href="/openapi.json">/openapi.json</a> is the same for programs, and
<a href="/docs/api">HTTP API</a> says what things mean. Send the key as <code>Authorization: Bearer …</code>.</p>
<ul>${contents.join('')}</ul>
${sections.join('\n')}`
}

function renderRoute(route: Route): string {
  const title = `${route.method} ${described(route).path}`
  return `<h3 id="${anchorOf(title)}"><code>${escapeHtml(title)}</code></h3>
<p>${escapeHtml(route.summary)}.${route.scope === 'open' ? ' No key is needed.' : ''}</p>
${route.query === undefined ? '' : fields('Query', route.query, 'input')}
${route.body === undefined ? '' : fields('Body', typeof route.body === 'string' ? route.body : route.body.schema, 'input')}
${route.answer === 'nothing' ? '' : fields('Answer', route.answer, 'output')}
${route.stream === undefined ? '' : fields('Each event of the stream', route.stream, 'output')}
<p class="soft">Other statuses: ${statusesOf(route).join(', ')}.</p>`
}

function fields(title: string, body: z.ZodType | string, io: 'input' | 'output'): string {
  if (typeof body === 'string') {
    const words =
      body === 'upload'
        ? 'a form with <code>file</code>, <code>purpose</code> and <code>artifact</code>, or the bytes'
        : `<code>${escapeHtml(body)}</code>`
    return `<p>${title}: ${words}</p>`
  }
  const rows = rowsOf(toSchema(body, io), '', 0)
  if (rows.length === 0) return `<p>${title}: JSON</p>`
  return `<details><summary>${title}</summary><div class="table"><table>
<thead><tr><th scope="col">field</th><th scope="col">type</th><th scope="col"></th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div></details>`
}

function rowsOf(schema: JsonObject, prefix: string, depth: number): string[] {
  const properties = isJsonObject(schema['properties']) ? schema['properties'] : null
  if (properties === null) {
    const items = schema['items']
    return isJsonObject(items) && prefix === '' ? rowsOf(items, '[]', depth) : []
  }
  const required = Array.isArray(schema['required']) ? (schema['required'] as readonly JsonValue[]) : []
  return Object.entries(properties).flatMap(([name, property]) => {
    if (!isJsonObject(property)) return []
    const path = prefix === '' ? name : `${prefix}.${name}`
    const facts = [required.includes(name) ? 'required' : '', ...bounds(property)].filter((fact) => fact !== '')
    const row = `<tr><td><code>${escapeHtml(path)}</code></td><td>${escapeHtml(typeOf(property))}</td><td>${escapeHtml(facts.join(', '))}</td></tr>`
    if (depth + 1 >= MAX_DEPTH) return [row]
    const inner = isJsonObject(property['items']) ? property['items'] : property
    return [row, ...rowsOf(inner, inner === property ? path : `${path}[]`, depth + 1)]
  })
}

function typeOf(schema: JsonValue | undefined): string {
  if (!isJsonObject(schema)) return 'JSON'
  if (schema['const'] !== undefined) return JSON.stringify(schema['const'])
  if (Array.isArray(schema['enum']))
    return (schema['enum'] as readonly JsonValue[]).map((value) => JSON.stringify(value)).join(' | ')
  const choices = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(choices)) return [...new Set((choices as readonly JsonValue[]).map(typeOf))].join(' | ')
  if (schema['type'] === 'array') return `list of ${typeOf(schema['items'])}`
  return typeof schema['type'] === 'string' ? schema['type'] : 'JSON'
}

function bounds(schema: JsonObject): string[] {
  const names = {
    minimum: 'at least',
    maximum: 'at most',
    minLength: 'at least',
    maxLength: 'at most',
    default: 'default',
  } as const
  return Object.entries(names).flatMap(([key, word]) => {
    const value = schema[key]
    if (value === undefined || Math.abs(Number(value)) >= Number.MAX_SAFE_INTEGER) return []
    return [`${word} ${JSON.stringify(value)}${key.endsWith('Length') ? ' characters' : ''}`]
  })
}
