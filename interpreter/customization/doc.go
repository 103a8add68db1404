// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package customization interprets kinds that YAML files describe, without a webhook. It has an
// [Interpreter] for a chain of interpreters.
//
//	own, err := customization.New(customization.File{Name: "workloads.yaml", Text: text})
//	if err != nil {
//		return err // workloads.yaml:9:13: InterpreterCustomization workloads: spec.health: …
//	}
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	healthy, err := answers.Health(ctx, workload)
//
// A file has one or more documents like this one. An InterpreterCustomization is a file format, not
// an object of an API server: there is no CustomResourceDefinition.
//
//	apiVersion: config.karmada.io/v1alpha1
//	kind: InterpreterCustomization
//	metadata: {name: workloads}
//	spec:
//	  targets: [{apiVersion: example.com/v1, kind: Workload}]
//	  replicas: object.spec.?replicas.orValue(1)
//	  requirements: podRequirements(object.spec.template)
//	  revise: "{'spec': {'replicas': replicas}}"
//	  retain: pick(observed, ['spec.paused'])
//	  health: object.?status.phase.orValue('') == 'Healthy'
//	  status: reflectStatus(object, ['replicas', 'readyReplicas', 'phase', 'observedGeneration'])
//	  aggregate: |
//	    merge([statuses.sums(['replicas', 'readyReplicas']),
//	      {'observedGeneration': observedGeneration(object, items)}])
//	  dependencies: podDependencies(object, object.spec.template)
//
// GUIDE.md explains how to test and serve customizations, and the results if a cluster has not
// reported. KARMADA.md explains how to migrate customizations in Lua.
//
// # Operations
//
// Each field of spec except targets is an expression in CEL. An operation without an expression is
// [interpreter.ErrNotInterpreted]: a chain calls its next interpreter.
//
//	field         operation            variables         result
//	replicas      InterpretReplica     object            an int
//	requirements  InterpretReplica     object            the requirements of a replica
//	                                                     (resourceRequest, nodeClaim,
//	                                                     priorityClassName); the field replicas
//	                                                     must be set, too
//	components    InterpretComponent   object            a list of name, replicas and
//	                                                     replicaRequirements
//	revise        ReviseReplica        object, replicas  a merge patch of the object
//	retain        Retain               object, observed  a merge patch of the desired object
//	aggregate     AggregateStatus      object, items,    the status, which replaces the earlier
//	                                   statuses          status
//	dependencies  InterpretDependency  object            a list of apiVersion, kind, namespace, name
//	                                                     or labelSelector
//	status        InterpretStatus      object            the status
//	health        InterpretHealth      object            a bool
//	prune         Prune                object            a merge patch of the object, after its
//	                                                     status and the API server's fields are
//	                                                     removed
//
// A merge patch has only the fields to change. Null removes a field, and a list replaces the
// earlier list (RFC 7386). Each element of items has clusterName, applied (a bool), appliedMessage
// and health (Healthy, Unhealthy or Unknown). The field status is absent until the cluster reports
// it. The variable statuses is the list of the reported statuses. A result may be an optional. An
// optional without a value is [interpreter.ErrNotInterpreted], except in the field requirements.
//
// # Targets
//
// The version of a target may be *, its group may start with "*.", and its kind may be *. The
// apiVersion * stands for every group and version. The most specific target that has an expression
// for the operation is used: first by the group, then by the kind, then by the version. The target
// {apiVersion: "*", kind: "*"} is the default for all other kinds. Two customizations with the same
// target, or with the same name, are an error.
//
// # Functions
//
// Expressions have the functions of CEL, optional fields, cel.bind(name, value, expression), and
// cel-go's extensions for strings, lists, sets, math and macros with two variables
// (map.transformMap(k, v, …)). A path has the names of nested fields, with dots between them. A key
// with a dot or a slash has no path: write object.metadata.annotations[?'a.b/c']. An argument that
// is an optional without a value counts as an empty object.
//
//	list.values(path)                    the values at the path, without null and empty texts
//	list.sum()                           the sum of numbers, 0 for an empty list
//	list.sums([path, …])                 an object with the sum of the values at each path
//	list.sumQuantities()                 the sum of quantities, as a text
//	list.min(), list.max()               an optional: the least or greatest number, text or time
//	sumFields([object, …])               the sum of the numbers at each field, also in nested objects
//	pick(object, [path, …])              an object with only these fields, if they exist
//	merge([object, …])                   the objects merged in depth, as by a merge patch
//	omitEmpty(object)                    the object without null, 0 and empty fields, in depth
//	condition(object, type)              the condition of object.status; missing texts are empty
//	reflectStatus(object, [path, …])     the listed fields of object.status, or all without a list,
//	                                     with generation and resourceTemplateGeneration as in native
//	observedGeneration(object, items)    the generation of object if each cluster has observed it,
//	                                     otherwise a lower one; reads observedGeneration, generation
//	                                     and resourceTemplateGeneration of each reported status
//	aggregateConditions(object, items,   a condition of each type: True if True on all clusters; for
//	  [type, …])                         the types in the list, one cluster is enough; GUIDE.md has
//	                                     the rules for clusters that differ
//	joinConditions(items)                a condition for each type, status and reason; its message is
//	                                     CLUSTER=MESSAGE for each cluster
//	latestConditions(items, key)         the latest condition for each value of the field named key
//	podRequirements(template)            the requirements of a pod of a pod template
//	maxRequirements([requirements, …])   the first of the list, with the greatest request of all of
//	                                     them for each resource
//	podDependencies(object, template)    the ConfigMaps, Secrets, claims and account of the pods
//	references(object, apiVersion, kind, dependencies in the namespace of the object; empty names are
//	  [name, …])                         omitted
//	quantity(value)                      a quantity or number as a double
//	integer(value, default)              an int, also of a text; the default for null and empty texts
//
// # Guarantees and limits
//
// Syntax, names, constant paths and static types are checked when a file is loaded. An invalid
// result is an [*Error] and never an answer. A result that changes apiVersion, kind, name,
// namespace or UID is invalid. Errors never quote values of objects, which may be secret.
//
// A document has at most 256 KiB, an expression 16 KiB and 2,000 parts (nodes of its syntax tree),
// and all expressions together 100,000 parts. An evaluation has at most 3 s and 4,000,000 steps. A
// step is about 10 ns of work, or 10 bytes of memory that the expression allocates. 4,000,000 steps
// are enough to aggregate four conditions of 1,000 clusters. At most GOMAXPROCS operations are
// evaluated at a time. Others wait until their context ends; the wait does not count for the 3 s.
package customization
