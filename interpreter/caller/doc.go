// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package caller calls resource interpreter webhooks from a control plane. A [Caller] finds the
// webhook that is configured for an object and an operation, sends the query in one of the
// protocols of package interpreter, and returns the checked answer.
//
//	webhooks, err := caller.New(caller.Options{Client: dynamicClient, Mapper: mapper})
//	if err != nil {
//		return err
//	}
//	go webhooks.Start(ctx) // keeps the configurations current
//	<-webhooks.Ready()
//	answers := caller.Chain(own, webhooks, native.New(), kinds.New())
//	replicas, requirements, err := answers.Replicas(ctx, object)
//
// Without an API server, set the configurations with [Caller].SetConfigurations.
//
// # Which webhook
//
// The ID of a webhook is configuration/webhook: the names of both. Of the matching webhooks, the
// caller uses the first by ID, as in Karmada. A rule of the Interpret protocol matches by operation
// and kind. A rule of the Explore protocol matches by operation, resource and scope, like those of
// admission webhooks. [Options].Mapper finds the resource of a kind. A rule for all kinds or
// resources, "*", does not match Secrets: name the kind Secret or the resource secrets. A lookup
// allocates nothing, and its time does not depend on the number of webhooks.
//
// # Guarantees
//
//   - The object in a query is never changed. Answers have new objects.
//   - An answer must have the UID and the protocol of the request, and the fields that the
//     operation requires. An answer with a negative number or more than 8 MiB is rejected. Answers
//     of Karmada's own server are accepted: see [interpreter.DecodeResponse]. A patch must apply,
//     and must not change apiVersion, kind, name, namespace or UID of the object. Only Prune may
//     remove the UID.
//   - A call takes at most the webhook's timeout, 10 s by default, with all its retries. Calls that
//     the server may have handled are not retried.
//   - Objects go only to services, and to hosts in [Options].AllowedHosts. Otherwise the author of
//     a configuration would choose where objects are sent. Connections to loopback, link-local,
//     multicast and metadata addresses are refused, also if a host name resolves to such an
//     address. In both cases the error is [ErrNotAllowed].
//   - The error for an HTTP status other than 2xx has the status, and no part of the body.
//   - Redirects are not followed. Credentials go only to the servers for which
//     [Options].Credentials returns some.
//   - A webhook is not silently skipped when its configuration becomes invalid: calls that the
//     mistake affects fail. If a configuration cannot be decoded, its earlier version stays in
//     effect. Invalid configurations are logged and counted.
//
// # When a call fails
//
// The error is a [*CallError] with the webhook and the reason. In two cases it is also an
// [interpreter.ErrNotInterpreted], and a [Chain] calls the next interpreter:
//
//   - The webhook answered with code 501: it does not implement the operation for the kind. In
//     Karmada this answer is an error.
//   - The failure policy of the webhook is Ignore, and the context of the call has not ended.
//     Webhooks of the Interpret protocol have no failure policy.
//
// Other failed calls stop a Chain.
//
// # Metrics
//
// With [Options].MetricsRegisterer, these metrics have the prefix spokewire_interpreter_caller_:
//
//	calls_total{webhook,operation,result}    counter    calls; the result is success or a [Reason]
//	call_seconds{webhook}                    histogram  time that calls took, with retries
//	retries_total{webhook}                   counter    retries of calls
//	webhooks{protocol}                       gauge      webhooks in the configurations
//	invalid_configurations                   gauge      invalid configurations
package caller
