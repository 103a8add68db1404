// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package lua runs Karmada's customizations: objects of the kind ResourceInterpreterCustomization
// (config.karmada.io/v1alpha1), with scripts in Lua that interpret a kind without a webhook. They
// run unchanged.
//
//	inLua, err := lua.New(lua.Options{}, lua.File{Name: "rollouts.yaml", Text: text})
//	if err != nil {
//		return err
//	}
//	answers := caller.Chain(inLua, webhooks, native.New(), kinds.New())
//	healthy, err := answers.Health(ctx, rollout)
//
// Use this package only for existing scripts. Write new customizations in CEL: see package
// customization. Only this package links gopher-lua.
//
// # Scripts
//
// Each operation has a field of spec.customizations, and its script defines a global function:
//
//	operation            field                     function         arguments          result
//	Retain               retention                 Retain           desired, observed  object
//	InterpretReplica     replicaResource           GetReplicas      object             replicas, requirements
//	InterpretComponent   componentResource         GetComponents    object             list
//	ReviseReplica        replicaRevision           ReviseReplica    object, replicas   object
//	InterpretStatus      statusReflection          ReflectStatus    object             status
//	AggregateStatus      statusAggregation         AggregateStatus  object, statuses   object
//	InterpretHealth      healthInterpretation      InterpretHealth  object             boolean
//	InterpretDependency  dependencyInterpretation  GetDependencies  object             list
//
// Requirements and components may be nil. The argument statuses is nil if there are none.
//
// If several customizations have the same target, the first one by name with a script for the
// operation answers. Dependencies are those of all customizations, sorted.
//
// Scripts are Lua 5.1 without metatables, coroutines and files. They have the libraries table,
// string, math, os and kube, also through require. As in Karmada, string has no gsub and rep, and
// os has only time and date. The functions of kube are resourceAdd, getResourceQuantity,
// accuratePodRequirements and getPodDependencies. The last two answer as package native does.
// Function print has no effect.
//
// Each call has a new state, so global variables end with it. The members of an object are visited
// in the order of their names, and math.random returns the same numbers in each call. So equal
// queries have equal answers, unless the script uses the time.
//
// # Values
//
// Null members are not visible to scripts. A list with null is an error. Members of an object that
// a script does not change stay the same, including null and numbers that Lua rounds.
//
// An empty table of an argument stays an object or a list. An empty table that the script makes
// becomes an object or a list if the arguments have an empty one at the same path. Otherwise it is
// omitted. In a status all empty tables are omitted, as in Karmada.
//
// A number is a float64, but an integer that the script passes on stays exact. A script fails if it
// copies a large integer to another path and the arguments or the script contain a different
// integer with the same float64.
//
// # Errors
//
// New and [Interpreter.Set] find syntax errors, missing functions and scripts, unknown fields and
// operations, and wrong types. A result of the wrong type is an error, never an answer. An [Error]
// has the file, the customization, the operation, the object of the query, and the line of the script:
//
//	rollouts.yaml: ResourceInterpreterCustomization rollouts:
//	spec.customizations.healthInterpretation.luaScript:3: InterpretHealth of Rollout prod/web: …
//
// # Limits
//
// [Options] bound the steps, the memory and the time of one call. A script cannot catch the error
// at a limit. A script has at most 64 KiB, a pattern 4,096 bytes. A string that the script makes,
// or passes to a function of the library string, has at most 1,000,000 bytes. Calls are nested at
// most 256 deep, and arithmetic operators of an expression 200 deep. The compiler needs up to two
// seconds for a script that is made to slow it down.
//
// The limits of steps and memory give the same result on each machine; Timeout does not. Functions
// of libraries count in proportion to their work. Memory is estimated: scripts that exceeded the 64
// MiB in TestHostileScripts ended with less than 90 MiB of heap. The default limits are enough to
// aggregate the statuses of 4,000 clusters, with 600 bytes each. At most GOMAXPROCS scripts run at
// a time, and other calls wait.
//
// KARMADA.md lists the differences from Karmada.
package lua
