/**
 * Every kind of environment, a row each; what it is made of is loaded when one is opened.
 */
import { extname } from 'node:path'
import type { SourceKind } from '../source.js'

const MODULES: ReadonlySet<string> = new Set(['.js', '.mjs', '.cjs', '.ts', '.mts'])

export const SOURCES: readonly SourceKind[] = [
  {
    scheme: 'reasoning-gym',
    target: '<task>',
    summary: 'tasks of the Python package reasoning-gym, one turn each',
    example: 'reasoning-gym:letter_counting',
    takes: ['settings', 'python', 'install', 'isolate', 'variables'],
    open: async (setup) => (await import('./reasoning-gym.js')).openReasoningGym(setup),
  },
  {
    scheme: 'openenv',
    target: '<address of the server>',
    summary: 'a server of the OpenEnv kind, already running',
    example: 'openenv:http://127.0.0.1:8000',
    takes: ['settings', 'maxTurns', 'turnRewards', 'tasksFile'],
    open: async (setup) => (await import('./openenv.js')).openOpenEnv(setup),
  },
  {
    scheme: 'mcp',
    target: '<command or address>',
    summary: 'the tools of an MCP server, asked by a file of tasks',
    example: 'mcp:"npx -y @some/server /data"',
    takes: ['settings', 'maxTurns', 'tasksFile', 'isolate', 'variables'],
    open: async (setup) => (await import('./mcp.js')).openMcp(setup),
  },
  {
    scheme: 'verifiers',
    target: '<environment>',
    summary: 'an environment of the Python package verifiers, which asks the model itself',
    example: 'verifiers:wordle',
    takes: ['settings', 'maxTurns', 'python', 'install', 'isolate', 'variables'],
    open: async (setup) => (await import('./verifiers.js')).openVerifiers(setup),
  },
  {
    scheme: 'agent',
    target: '<command>',
    summary: 'a program that asks the model itself, by its base URL',
    example: 'agent:"my-agent {prompt}"',
    takes: ['settings', 'maxTurns', 'tasksFile', 'isolate', 'variables'],
    open: async (setup) => (await import('./agent.js')).openAgent(setup),
  },
  {
    scheme: 'file',
    target: '<path of a module>',
    summary: 'a module of your own that exports an environment',
    example: './my-env.mjs',
    takes: ['maxTurns', 'turnRewards'],
    isAddress: (text) => MODULES.has(extname(text)) && !/^[a-z][a-z-]+:/.test(text),
    open: async (setup) => (await import('./module.js')).openModule(setup),
  },
]
