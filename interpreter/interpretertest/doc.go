// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package interpretertest tests interpreters: customizations, handlers, webhooks behind a URL, and
// servers and callers in any language.
//
// # Cases
//
// A case is a YAML document with a query and its answer. A file has any number of them:
//
//	name: replicas
//	reason: replicas default to 1
//	operation: InterpretReplica
//	object:
//	  apiVersion: example.com/v1
//	  kind: Workload
//	  metadata: {name: web, namespace: prod}
//	want:
//	  replicas: 1
//	---
//	name: another number of replicas
//	operation: ReviseReplica
//	object: …
//	replicas: 5
//	want:
//	  object: …
//
// observed is the object on the cluster, for Retain, and statuses are the statuses to aggregate.
// want has one of these fields: replicas (with requirements), components, object, dependencies,
// status, healthy or error. The field error is a part of the text of an error. Each case is a
// subtest:
//
//	func TestWorkload(t *testing.T) {
//		interpretertest.RunFile(t, interpreter.FromHandler(handler), "testdata/workload.yaml")
//	}
//
// Every [interpreter.Interpreter] is a target, such as customization.New(…), lua.New(…) or a chain.
// [URL] returns a target that calls a webhook over TLS, in one of the protocols.
//
// A test can start the webhook itself, with a certificate for the test:
//
//	certDir, caBundle := interpretertest.Certificate(t)
//	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: certDir})
//
// # Conformance
//
// [CheckServer] tests a webhook, in any language, against both protocols: the requests that it must
// reject, and the form of answers. [CheckCaller] tests a caller with invalid answers.
package interpretertest
