// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package caller is the side of a control plane that asks resource interpreter webhooks. It finds the webhook that is
// configured for an object and an operation, calls it in its protocol, and checks the answer before anybody uses it.
//
//	webhooks, err := caller.New(caller.Options{Client: dynamicClient, Mapper: mapper})
//	if err != nil {
//		return err
//	}
//	go webhooks.Start(ctx) // keeps the configurations current
//	<-webhooks.Ready()
//	answers := caller.Chain(webhooks, native.New())
//	replicas, requirements, err := answers.Replicas(ctx, object)
//
// Without an API server, [Caller].SetConfigurations takes configurations from a list.
//
// # Which webhook
//
// The first one by configuration/webhook, as in Karmada, of those with a rule that holds for operation, group, version and
// kind, or resource and scope. Rules of the Explore protocol name resources, so [Options].Mapper is asked for the
// resource of a kind; they hold as those of admission webhooks do. A rule for all kinds or resources, "*", does not hold for
// Secrets: name the kind Secret or the resource secrets. Finding it takes no allocation and the same time for any
// number of webhooks.
//
// # Guarantees
//
//   - The object in a query is never changed. Answers hold new objects.
//   - An answer is used only if it is to this request, in its protocol, has what the operation asks for and no negative
//     number, and is not over 8 MiB. Answers of Karmada's own server are accepted: see [interpreter.DecodeResponse]. A patch must apply, and must not change apiVersion, kind, name, namespace or
//     UID of the object.
//   - A call takes at most the webhook's timeout, 10 s by default, with all its retries. Only calls of which no byte
//     has reached the server are retried, and those that it answered with 429, or with 503 and Retry-After.
//   - Objects go only to services, and to hosts in [Options].AllowedHosts. Otherwise the author of a configuration would choose
//     where objects are sent. AllowedServices limits services. Connections to loopback, link-local and metadata addresses are refused
//     when they are made, unless they are allowed. The error is then [ErrNotAllowed].
//   - The error of an HTTP status other than 2xx has the status, and nothing of the body.
//   - Redirects are not followed. Credentials go to the servers for which [Options].Credentials has some, and to no others.
//   - A configuration that becomes invalid does not silently switch a webhook off: calls to it fail. Of one that cannot
//     even be decoded the version before stays in place. Both are logged, and counted as invalid.
//
// # When a call fails
//
// The error is a [*CallError], which says which webhook failed and why. Where the webhook's failure policy is Ignore, it
// is an [interpreter.ErrNotInterpreted] too, so that a [Chain] asks the next interpreter. Webhooks of the Interpret
// protocol have no policy: their failures count.
//
// # Metrics
//
// With [Options].MetricsRegisterer there are, with the prefix spokewire_interpreter_caller_:
//
//	calls_total{webhook,operation,result}    counter    calls; the result is success or a [Reason]
//	call_seconds{webhook}                    histogram  time that calls took, with retries
//	retries_total{webhook}                   counter    calls that were tried again
//	webhooks{protocol}                       gauge      webhooks in the configurations
//	invalid_configurations                   gauge      configurations that are not valid
package caller
