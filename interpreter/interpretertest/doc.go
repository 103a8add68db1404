// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package interpretertest tests interpreters: handlers, webhooks behind a URL, the native kinds, and other people's
// servers and callers.
//
// # Cases
//
// A case is a question and the answer that it must have, as a YAML document. A file has any number of them:
//
//	name: replicas
//	reason: what is not set is 1
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
// observed is the object on the cluster, for Retain, and statuses are what to aggregate. What is wanted is one of
// replicas (with requirements), components, object, dependencies, status, healthy, and error: a part of the text of an
// error. Each case is a subtest:
//
//	func TestWorkload(t *testing.T) {
//		interpretertest.RunFile(t, interpreter.FromHandler(handler), "testdata/workload.yaml")
//	}
//
// [URL] is a target that asks a webhook over TLS, in one of the protocols; native.New() and a caller are targets too.
//
// A test can start the webhook itself, with a certificate for the test:
//
//	certDir, caBundle := interpretertest.Certificate(t)
//	server, err := interpreter.NewServer(interpreter.ServerOptions{Addr: "127.0.0.1:0", CertDir: certDir})
//
// # Conformance
//
// [CheckServer] holds a webhook against both protocols, whatever it is written in: the requests that must be refused, and
// the form of answers. [CheckCaller] holds a caller against a server that answers as none should.
package interpretertest
