/**
 * Pre-tokenizers by the name that a GGUF file gives (`tokenizer.ggml.pre`): a flat table.
 *
 * The names are llama.cpp's; the patterns are those of the original models' `tokenizer.json`, applied in turn. Checked
 * with llama.cpp's own vectors where it has them (`test/integration/text`).
 */

import { compilePattern, gpt2Pattern } from './patterns.js'
import { chainSplitters, type Splitter, splitIsolated } from './pre-tokenizer.js'

export interface NamedPreTokenizer {
  readonly patterns: readonly string[]
  /** A word that is a token as a whole is taken as it is. */
  readonly ignoresMerges?: boolean
  /** BOS is added unless the file says otherwise. */
  readonly addsBos?: boolean
}

const contractions = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
const signs = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*`
const spaces = String.raw`\s*[\r\n]+|\s+(?!\S)|\s+`
const word = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+`

/** Words as Llama 3, Qwen 2 and similar models cut them; they differ in how many digits go together. */
const modern = (digits: string): string => `${contractions}|${word}|${digits}|${signs}|${spaces}`

const upper = String.raw`\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`
const lower = String.raw`\p{Ll}\p{Lm}\p{Lo}\p{M}`
/** Words that also break where lower case turns to upper case (`camelCase`). */
const caseAware = (digits: string, suffix: string): string =>
  [
    String.raw`[^\r\n\p{L}\p{N}]?[${upper}]*[${lower}]+${suffix}`,
    String.raw`[^\r\n\p{L}\p{N}]?[${upper}]+[${lower}]*${suffix}`,
    digits,
    String.raw` ?[^\s\p{L}\p{N}]+[\r\n/]*`,
    spaces,
  ].join('|')

const asciiSign = String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_\x60{|}~]`
const deepseek3 = [
  String.raw`\p{N}{1,3}`,
  String.raw`[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+`,
  String.raw`${asciiSign}[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|${spaces}`,
]
const han = String.raw`[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+`

const gpt2: NamedPreTokenizer = { patterns: [gpt2Pattern] }
const digitByDigit: NamedPreTokenizer = { patterns: [String.raw`\p{N}`, gpt2Pattern] }
const llama3: NamedPreTokenizer = { patterns: [modern(String.raw`\p{N}{1,3}`)], ignoresMerges: true, addsBos: true }
const threeDigits: NamedPreTokenizer = { patterns: [modern(String.raw`\p{N}{1,3}`)] }
const qwen2: NamedPreTokenizer = { patterns: [modern(String.raw`\p{N}`)] }
const gpt4o: NamedPreTokenizer = { patterns: [caseAware(String.raw`\p{N}{1,3}`, `(?:${contractions})?`)] }
const deepseekV3: NamedPreTokenizer = { patterns: deepseek3 }
const bloom = String.raw` ?[^(\s|.,!?…。，、।۔،)]+`

const entries: readonly (readonly [names: string, preTokenizer: NamedPreTokenizer])[] = [
  ['default', { patterns: [String.raw`[\p{P}\$\+<=>\^~\|]+`, gpt2Pattern, String.raw`\p{N}+`, '[0-9][0-9][0-9]'] }],
  ['gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert exaone4', gpt2],
  ['jina-v1-en jina-v2-code roberta-bpe mpt olmo jais trillion granite-docling', gpt2],
  ['smollm starcoder refact command-r codeshell exaone minerva-7b mellum2', digitByDigit],
  ['llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano', llama3],
  ['dbrx smaug-bpe glm4 chatglm-bpe', threeDigits],
  ['qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2', qwen2],
  [
    'qwen35',
    {
      patterns: [
        String.raw`${contractions}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${spaces}`,
      ],
    },
  ],
  ['gpt-4o llama4 kanana2 talkie minimax-m2', gpt4o],
  ['tekken', { patterns: [caseAware(String.raw`\p{N}`, '')], ignoresMerges: true, addsBos: true }],
  ['deepseek-v3 hunyuan-dense joyai-llm hy_v4', deepseekV3],
  [
    'deepseek-coder',
    { patterns: [String.raw`[\r\n]`, String.raw`\s?\p{L}+`, String.raw`\s?\p{P}+`, han, String.raw`\p{N}`] },
  ],
  [
    'deepseek-llm',
    {
      patterns: [
        String.raw`[\r\n]`,
        String.raw`\s?[\p{Lu}\p{Ll}\p{Lt}]+`,
        String.raw`\s?[!-/:-~！-／：-～‘-‟　-。]+`,
        String.raw`\s+$`,
        han,
        String.raw`\p{N}+`,
      ],
    },
  ],
  ['falcon', { patterns: [String.raw`[\p{P}\$\+<=>\^~\|\x60]+`, gpt2Pattern, '[0-9][0-9][0-9]'] }],
  ['bloom poro-chat gpt3-finnish', { patterns: [bloom] }],
  ['viking', { patterns: [bloom, String.raw`\p{N}`] }],
  ['seed-coder', { patterns: [String.raw`${contractions}|${word}|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|${spaces}`] }],
  [
    'bailingmoe bailingmoe2 llada-moe',
    { patterns: [String.raw`${contractions}|${word}|\p{N}|${signs}|\s*[\r\n]|\s+(?!\S)|\s+`] },
  ],
]

/** Pre-tokenizers by name. */
export const namedPreTokenizers: ReadonlyMap<string, NamedPreTokenizer> = new Map(
  entries.flatMap(([names, preTokenizer]) => names.split(' ').map((name) => [name, preTokenizer] as const)),
)

/** GPT-2's words with each digit alone, in one pattern: that of the built-in spark. */
const sparkPattern = gpt2Pattern.replace(String.raw` ?\p{N}+`, String.raw`\p{N}`)

/** Their patterns, and spark's. */
export const knownPatterns: ReadonlySet<string> = new Set([
  ...entries.flatMap(([, { patterns }]) => patterns),
  sparkPattern,
])

/** The splitter of a named pre-tokenizer. */
export function splitterOf({ patterns }: NamedPreTokenizer): Splitter {
  return chainSplitters(patterns.map((pattern) => splitIsolated(compilePattern(pattern))))
}
