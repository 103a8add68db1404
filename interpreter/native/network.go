// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/spokewire/sdk-go/interpreter"
)

func service() interpreter.HandlerFor[*corev1.Service] {
	type object = *corev1.Service
	return interpreter.HandlerFor[object]{
		DropUncertain: replacedStatus,

		Retain: retainService,
		Aggregate: func(_ context.Context, s object, items []interpreter.AggregatedStatusItem) error {
			if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
				return nil
			}
			var all []corev1.LoadBalancerIngress
			_, err := eachStatus(items, func(_ string, status *corev1.ServiceStatus) {
				all = append(all, status.LoadBalancer.Ingress...)
			})
			if err == nil {
				s.Status.LoadBalancer.Ingress = addresses(all)
			}
			return err
		},
		Health: func(_ context.Context, s object) (bool, error) {
			reachable := func(i corev1.LoadBalancerIngress) bool { return i.Hostname != "" || i.IP != "" }
			return s.Spec.Type != corev1.ServiceTypeLoadBalancer ||
				slices.ContainsFunc(s.Status.LoadBalancer.Ingress, reachable), nil
		},
	}
}

// retainService keeps the addresses and ports that the cluster has assigned.
func retainService(_ context.Context, desired, observed *corev1.Service) error {
	d, o := &desired.Spec, &observed.Spec
	if d.Type == corev1.ServiceTypeExternalName || o.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if d.ClusterIP == "" {
		d.ClusterIP, d.ClusterIPs = o.ClusterIP, o.ClusterIPs
	}
	if len(d.IPFamilies) == 0 {
		d.IPFamilies = o.IPFamilies
	}
	if d.IPFamilyPolicy == nil {
		d.IPFamilyPolicy = o.IPFamilyPolicy
	}
	if d.Type == "" || d.Type == corev1.ServiceTypeClusterIP {
		return nil
	}
	if d.HealthCheckNodePort == 0 && d.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		d.HealthCheckNodePort = o.HealthCheckNodePort
	}
	given := make(map[portKey]int32, len(o.Ports))
	for i := range o.Ports {
		given[keyOf(&o.Ports[i])] = o.Ports[i].NodePort
	}
	for i := range d.Ports {
		if p := &d.Ports[i]; p.NodePort == 0 {
			p.NodePort = given[keyOf(p)]
		}
	}
	return nil
}

// address identifies an address of a load balancer.
type address struct {
	hostname, ip string
	mode         corev1.LoadBalancerIPMode
}

// addresses returns each address once with the ports of all clusters, sorted.
func addresses(list []corev1.LoadBalancerIngress) []corev1.LoadBalancerIngress {
	ports := map[address][]corev1.PortStatus{}
	for _, i := range list {
		key := address{i.Hostname, i.IP, deref(i.IPMode)}
		ports[key] = append(ports[key], i.Ports...)
	}
	keys := slices.SortedFunc(maps.Keys(ports), func(a, b address) int {
		return cmp.Or(emptyLast(a.hostname, b.hostname), cmp.Compare(a.ip, b.ip), emptyLast(a.mode, b.mode))
	})
	var out []corev1.LoadBalancerIngress
	for _, key := range keys {
		i := corev1.LoadBalancerIngress{Hostname: key.hostname, IP: key.ip}
		if key.mode != "" {
			i.IPMode = &key.mode
		}
		slices.SortFunc(ports[key], comparePorts)
		i.Ports = slices.CompactFunc(ports[key], func(a, b corev1.PortStatus) bool { return comparePorts(a, b) == 0 })
		out = append(out, i)
	}
	return out
}

func comparePorts(a, b corev1.PortStatus) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(deref(a.Error), deref(b.Error)))
}

func emptyLast[T ~string](a, b T) int {
	if a == "" || b == "" {
		return cmp.Compare(len(b), len(a))
	}
	return cmp.Compare(a, b)
}

// portKey identifies a port of a service.
type portKey struct {
	protocol corev1.Protocol
	port     int32
}

func keyOf(p *corev1.ServicePort) portKey {
	return portKey{protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), port: p.Port}
}

func ingress() interpreter.HandlerFor[*networkingv1.Ingress] {
	type object = *networkingv1.Ingress
	return interpreter.HandlerFor[object]{
		DropUncertain: replacedStatus,

		Aggregate: func(_ context.Context, i object, items []interpreter.AggregatedStatusItem) error {
			var all []networkingv1.IngressLoadBalancerIngress
			_, err := eachStatus(items, func(_ string, status *networkingv1.IngressStatus) {
				all = append(all, status.LoadBalancer.Ingress...)
			})
			if err != nil {
				return err
			}
			list, err := convert[corev1.LoadBalancerIngress](all)
			if err == nil {
				i.Status.LoadBalancer.Ingress, err = convert[networkingv1.IngressLoadBalancerIngress](addresses(list))
			}
			return err
		},
		// The ingress controller provides the certificate of a TLS entry without a secret.
		Dependencies: func(_ context.Context, i object) ([]interpreter.DependentObjectReference, error) {
			r := references{namespace: i.Namespace}
			for _, tls := range i.Spec.TLS {
				r.add("Secret", tls.SecretName)
			}
			return r.sorted(), nil
		},
		Health: func(_ context.Context, i object) (bool, error) {
			reachable := func(i networkingv1.IngressLoadBalancerIngress) bool { return i.Hostname != "" || i.IP != "" }
			return slices.ContainsFunc(i.Status.LoadBalancer.Ingress, reachable), nil
		},
	}
}
