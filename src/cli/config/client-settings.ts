/**
 * The settings of the command line itself, one row each, in the form of the service's (`contract/settings/service.ts`): where it
 * calls, how it says who it is, how it shows things. Their flags belong to every command.
 */
import { DEFAULT_PROJECT, DEFAULT_SERVER_URL } from '#contract/settings/service.js'
import { defineSettings } from '#contract/settings/setting.js'

export const CLIENT_SETTINGS = defineSettings({
  server: {
    key: 'server',
    type: 'url',
    default: DEFAULT_SERVER_URL,
    env: ['TRAINYARD_URL', 'TRAINYARD_SERVER'],
    summary: 'service to talk to',
  },
  apiKey: {
    key: 'api-key',
    type: 'text',
    default: null,
    flag: null,
    isSecret: true,
    summary: 'credential; for a local server it is found by itself',
  },
  apiKeyFile: {
    key: 'api-key-file',
    type: 'path',
    default: null,
    flag: '--api-key-file <path>',
    summary: 'file with the credential, - for standard input',
  },
  project: {
    key: 'project',
    type: 'text',
    default: DEFAULT_PROJECT,
    summary: 'project of models named without one; the flag limits lists, too',
  },
  entity: {
    key: 'entity',
    type: 'text',
    default: null,
    whenAbsent: "the key's own",
    summary: 'entity of models named without one',
  },
  json: {
    key: 'json',
    type: 'boolean',
    default: false,
    summary: 'one JSON document, or JSON Lines for a stream, on stdout',
  },
  color: {
    key: 'color',
    type: 'boolean',
    default: null,
    env: [],
    flag: '--no-color',
    summary: 'no colour; NO_COLOR and FORCE_COLOR are honoured too',
  },
  noInput: {
    key: 'no-input',
    type: 'boolean',
    default: false,
    env: ['TRAINYARD_NO_INPUT', 'CI'],
    summary: 'never ask; exit 2 naming the flag instead',
  },
  timeout: {
    key: 'timeout',
    type: 'duration',
    default: null,
    whenAbsent: '30s, answers and uploads 20m',
    summary: 'limit per request, for example 500ms, 30s, 5m',
  },
  verbose: {
    key: 'verbose',
    type: 'boolean',
    default: false,
    flag: '-v, --verbose',
    summary: 'request lines on stderr: method, path, status, time, request id',
  },
})
