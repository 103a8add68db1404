// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package emco lets EMCO's orchestrator use an engine of package rsync in place of EMCO's own
// rsync. It reads app contexts from the keys that the orchestrator writes, and writes statuses to
// the keys that the orchestrator reads.
//
//	keys, err := etcdstore.New(client, etcdstore.Options{})                     // EMCO's keys
//	own, err := etcdstore.New(client, etcdstore.Options{Prefix: "/spokewire"}) // the engine's
//	engine, err := rsync.New(own, connectors, rsync.Options{})
//	bridge, err := emco.New(engine, keys)
//	options := rsyncgrpc.ServerOptions{
//		Options:  rsyncgrpc.Options{EMCOImporter: bridge},
//		CertFile: "tls.crt", KeyFile: "tls.key", ClientCAFile: "clients.crt",
//	}
//	server, err := rsyncgrpc.NewServer(engine, options)
//	go engine.Start(ctx)
//	go bridge.Start(ctx)
//	go server.Start(ctx)
//
// The engine needs a prefix of its own, because some of its keys have the names of EMCO's keys.
//
// # Hooks and unsupported contexts
//
// EMCO lists hooks separately, in resource/instruction/dependency/ of the app's cluster:
//
//	"{\"resdependency\":{\"crd-install\":[\"crontabs+CustomResourceDefinition\"],\"pre-install\":[\"migrate+Job\"]}}"
//
// Each list has the name of a hook. If it is one of [appcontext.Hooks], the resources in the list
// have this hook. No event of the engine runs Helm's other hooks, for example pre-upgrade: a
// resource that has only such hooks is omitted. A resource with two of [appcontext.Hooks] is an
// [appcontext.FaultBadLayout].
//
// [Decode] and [Encode] move contexts from EMCO to the engine and back without a bridge. EMCO's keys
// cannot represent every AppContext.
//
// # Bridge
//
// [Bridge.Import] reads a context. For an incomplete or broken context it returns a
// [*appcontext.Problem] with the key. [Bridge.Start] writes statuses. EMCO.md in package rsync has
// the keys, and the steps of a migration.
package emco
