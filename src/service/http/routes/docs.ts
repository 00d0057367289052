/**
 * `/docs` for people and `/openapi.json` for programs. Open: they say nothing that the package does not say.
 */
import { NotFoundError } from '#base/errors/errors.js'
import { CONTENT_SECURITY_POLICY, STYLE } from '../docs/page.js'
import { createDocumentation } from '../docs/pages.js'
import type { App, AppOptions, RequestContext } from '../environment.js'
import { createOpenApiDocument } from '../openapi/document.js'

export function bindDocs(app: App, options: Pick<AppOptions, 'version'>): void {
  const documentation = createDocumentation()
  let openApi: string | null = null

  async function answerPage(c: RequestContext, name: string): Promise<Response> {
    const html = await documentation.page(name)
    if (html === null) {
      throw new NotFoundError('not_found', `there is no page "${name.slice(0, 100)}"`, {
        hint: 'GET /docs lists the pages',
      })
    }
    return c.body(html, 200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': CONTENT_SECURITY_POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    })
  }

  app.get('/openapi.json', (c) => {
    openApi ??= JSON.stringify(createOpenApiDocument(options.version))
    return c.body(openApi, 200, { 'content-type': 'application/json' })
  })
  app.get('/docs', (c) => answerPage(c, ''))
  app.get('/docs/pictures/:file', async (c): Promise<Response> => {
    const file = c.req.param('file')
    const picture = await documentation.picture(file)
    if (picture === null) throw new NotFoundError('not_found', `there is no picture "${file.slice(0, 100)}"`)
    return c.body(picture, 200, { 'content-type': 'image/svg+xml' })
  })
  app.get('/docs/:page', async (c): Promise<Response> => {
    const name = c.req.param('page')
    if (name === 'style.css') return c.body(STYLE, 200, { 'content-type': 'text/css; charset=utf-8' })
    return answerPage(c, name)
  })
}
