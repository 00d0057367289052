/**
 * The page for browsers, below `/ui`: what `browser/` was built to, the shell around it, and views of other plugins.
 */
import { definePlugin } from '#service/define-plugin.js'
import { pageSettings } from './settings.js'

export const page = definePlugin({
  name: 'page',
  settings: pageSettings,
  home: {
    path: '/ui/',
    isServed: ({ ui }) => ui,
    isBuilt: async () => (await import('./built-page.js')).isBuilt(),
  },
  endpoints: async () => (await import('./endpoints.js')).pageEndpoints,
  start: async ({ pages }) => (await import('./plugin-pages.js')).loadPages(pages),
  handlers: async (service) => (await import('./handlers.js')).pageHandlers(service),
  commands: {
    after: 'config path',
    rows: [
      {
        path: 'ui',
        summary: 'Open the page of the service in a browser, signed in',
        group: 'use',
        load: async () => (await import('./command.js')).ui,
      },
    ],
  },
})
