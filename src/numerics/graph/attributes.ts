/**
 * Short constructors and readers for node attributes.
 */
import type { HostTensor } from '#numerics/tensor/host-tensor.js'
import type { Attribute, Graph } from './graph.js'

export type Attributes = Readonly<Record<string, Attribute>>

/** An integer attribute; booleans become 0 and 1. */
export function int(value: number | boolean): Attribute {
  return { kind: 'int', value: Number(value) }
}

/** A float attribute; ONNX stores it as float32. */
export function float(value: number): Attribute {
  return { kind: 'float', value }
}

/** A text attribute. */
export function text(value: string): Attribute {
  return { kind: 'string', value }
}

/** A list of integers. */
export function ints(value: readonly number[]): Attribute {
  return { kind: 'ints', value }
}

/** A tensor attribute. */
export function tensor(value: HostTensor): Attribute {
  return { kind: 'tensor', value }
}

/** A subgraph, for control flow. */
export function subgraph(value: Graph): Attribute {
  return { kind: 'graph', value }
}

/** The integer attribute `name`, or `fallback` if it is absent or of another kind. */
export function readInt(attributes: Attributes, name: string, fallback: number): number {
  const attribute = attributes[name]
  return attribute?.kind === 'int' ? attribute.value : fallback
}

/** The float attribute `name`, or `fallback`. */
export function readFloat(attributes: Attributes, name: string, fallback: number): number {
  const attribute = attributes[name]
  return attribute?.kind === 'float' ? attribute.value : fallback
}

/** The text attribute `name`, or `fallback`. */
export function readText(attributes: Attributes, name: string, fallback: string): string {
  const attribute = attributes[name]
  return attribute?.kind === 'string' ? attribute.value : fallback
}

/** The list attribute `name`, or null. */
export function readInts(attributes: Attributes, name: string): readonly number[] | null {
  const attribute = attributes[name]
  return attribute?.kind === 'ints' ? attribute.value : null
}
